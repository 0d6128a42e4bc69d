"""Programs that try to get out, or to take more than their share; each does as little harm as it can where it succeeds.

A program that can only itself know that it succeeded prints ESCAPED. For all else the judge looks from outside. Names
in capitals after a $ are what the judge planted; TASKS, BYTES and so on bound the bombs.
"""

from string import Template

PRELUDE = """
import ctypes, os, signal, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    return libc.syscall(number, *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
def attempt(what, *arguments, **named):
    try:
        return what(*arguments, **named)
    except BaseException as error:
        print("refused:", type(error).__name__, file=sys.stderr)
"""

SECRETS = {
    "read a secret file": "print(open('$SECRET').read())",
    "read a secret file by descriptor": (
        "fd = os.open('/', os.O_PATH)\nprint(open(os.open('.$SECRET', os.O_RDONLY, dir_fd=fd)).read())"
    ),
    "read a secret file below its folder": "os.chdir('$FOLDER')\nprint(open('secret').read())",
    "read a secret file with mmap": (
        "import mmap\nprint(mmap.mmap(open('$SECRET', 'rb').fileno(), 0, prot=mmap.PROT_READ)[:])"
    ),
    "read a secret file through a symbolic link": "os.symlink('$SECRET', 'link')\nprint(open('link').read())",
    "read a secret file through a link to the root": "os.symlink('/', 'root')\nprint(open('root$SECRET').read())",
    "read a secret file through a hard link": "os.link('$SECRET', 'hard')\nprint(open('hard').read())",
    "read a secret file with a raw system call": (
        "fd = call(257, -100, b'$SECRET', 0)\nb = ctypes.create_string_buffer(100)\nlibc.read(fd, b, 100)\n"
        "print(b.value)"
    ),
    "read a secret file with openat2": (
        "fd = call(437, -100, b'$SECRET', struct.pack('QQQ', 0, 0, 0), 24)\n"
        "b = ctypes.create_string_buffer(100)\nlibc.read(fd, b, 100)\nprint(b.value)"
    ),
    "read a secret file by its handle": (
        "h = ctypes.create_string_buffer(struct.pack('Ii', 128, 0) + bytes(128))\nm = ctypes.c_int()\n"
        "call(303, -100, b'$SECRET', h, ctypes.byref(m), 0)\nmount = os.open('/', os.O_RDONLY)\n"
        "fd = call(304, mount, h, 0)\nprint(os.read(fd, 100))"
    ),
    "read a secret file with sendfile": "os.sendfile(1, os.open('$SECRET', os.O_RDONLY), 0, 100)",
    "list a folder": "print(os.listdir('$FOLDER'))",
    "move a secret file here": "os.rename('$SECRET', 'mine')\nprint(open('mine').read())",
    "read the environment": "print(dict(os.environ))",
    "read the environment as the kernel keeps it": "print(open('/proc/self/environ').read())",
    "read the environment of every process": (
        "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "    text = attempt(lambda: open(f'/proc/{pid}/environ').read()) or ''\n"
        "    print(text.partition('PLANTED_API_KEY=')[2][:100], end='')"  # the output of all would be cut
    ),
    "read the environment of another process": "print(open('/proc/$CANARY/environ').read())",
    "read the environment of the parent": "print(open(f'/proc/{os.getppid()}/environ').read())",
    "read the memory of the parent": (
        "for line in open(f'/proc/{os.getppid()}/maps'):\n    if '[stack]' in line:\n"
        "        start, end = (int(x, 16) for x in line.split()[0].split('-'))\n"
        "        print(os.pread(os.open(f'/proc/{os.getppid()}/mem', os.O_RDONLY), end - start, start))"
    ),
    "through the root of the parent": "print(open(f'/proc/{os.getppid()}/root$SECRET').read())",
    "through the root of the host": "print(open('/proc/$HOST/root$SECRET').read())",
    "through the folder of the host": "print(os.listdir('/proc/$HOST/cwd'), 'ESCAPED')",
    "files that were left open": (
        "for fd in range(3, 1024):\n    try: os.fstat(fd)\n    except OSError: continue\n    print('ESCAPED', fd)"
    ),
    "the text of the last program": (
        "import gc\nwords = [o for o in gc.get_objects() if isinstance(o, str) and 'MARK-OF-THE-LAST' in o]\n"
        "print('ESCAPED' if any('def last_program' in w for w in words) else '')"
    ),
    "password hashes": "print(open('/etc/shadow').read(), 'ESCAPED')",
    "home of root": "print([n for n in os.listdir('/root') if n not in ('.pyenv',)] and 'ESCAPED')",
}

LIBRARIES = {
    "numpy reads a file": (
        "import numpy\nprint(numpy.fromfile('$SECRET', dtype='S1'), numpy.loadtxt('$SECRET', dtype=str))"
    ),
    "numpy writes a file": "import numpy\nnumpy.save('$FOLDER/abuse.npy', numpy.zeros(3))",
    "numpy loads a pickle that runs a command": (
        "import numpy, pickle\nclass P:\n    def __reduce__(self): return (os.system, ('touch $FOLDER/abuse',))\n"
        "pickle.dump(P(), open('p.npy', 'wb'))\nnumpy.load('p.npy', allow_pickle=True)"
    ),
    "numpy maps a file": "import numpy\nm = numpy.memmap('$TARGET', mode='r+')\nm[:4] = 0\nm.flush()",
    "pandas reads a file": "import pandas\nprint(pandas.read_csv('$SECRET'))",
    "pandas reads a page": "import pandas\nprint(pandas.read_csv('http://127.0.0.1:$TCP4/x'))",
    "pandas evaluates": (
        "import pandas\npandas.eval(\"__import__('os').system('touch $FOLDER/abuse')\", engine='python')"
    ),
    "sympy runs a command": "import sympy\nsympy.sympify(\"__import__('os').system('touch $FOLDER/abuse')\")",
    "sympy reads a file": "import sympy\nprint(sympy.sympify(\"open('$SECRET').read()\"))",
    "sympy compiles": (
        "import sympy\nx = sympy.Symbol('x')\nfrom sympy.utilities.autowrap import autowrap\nautowrap(x + 1)"
    ),
    "urllib": "import urllib.request\nprint(urllib.request.urlopen('http://127.0.0.1:$TCP4/', timeout=1).read())",
    "urllib reads a file": "import urllib.request\nprint(urllib.request.urlopen('file://$SECRET').read())",
}

WRITES = {
    "write a file of the host": "open('$TARGET', 'w').write('changed')",
    "append to a file of the host": "os.write(os.open('$TARGET', os.O_WRONLY | os.O_APPEND), b'changed')",
    "create a file of the host": "open('$FOLDER/abuse', 'w').write('x')",
    "create a folder of the host": "os.mkdir('$FOLDER/abuse')",
    "remove a file of the host": "os.unlink('$TARGET')",
    "rename a file of the host": "os.rename('$TARGET', '$TARGET-2')",
    "replace a file of the host": "open('new', 'w').write('changed')\nos.replace('new', '$TARGET')",
    "truncate a file of the host": "os.truncate('$TARGET', 0)",
    "mode of a file of the host": "os.chmod('$TARGET', 0o777)",
    "mode of a file of the host, by descriptor": "os.fchmod(os.open('$TARGET', os.O_RDONLY), 0o777)",
    "owner of a file of the host": "os.chown('$TARGET', 12345, 12345)",
    "times of a file of the host": "os.utime('$TARGET', (1, 1))",
    "attributes of a file of the host": "os.setxattr('$TARGET', 'user.abuse', b'x')",
    "write through a symbolic link": "os.symlink('$TARGET', 'l')\nopen('l', 'w').write('changed')",
    "write through a symbolic link to the folder": "os.symlink('$FOLDER', 'd')\nopen('d/abuse', 'w').write('changed')",
    "leave a link for the cleaner": (
        "os.symlink('$FOLDER', 'd')\nos.mkdir('e')\nos.symlink('$TARGET', 'e/f')\nos.chmod('e', 0)"
    ),
    "leave what is hard to remove": (
        "for _ in range(300):\n    os.mkdir('x' * 200)\n    os.chdir('x' * 200)\nos.mkdir('closed', 0)"
    ),
    "write into the interpreter": (
        "import json\nopen(os.path.dirname(json.__file__) + '/abuse.py', 'w').write('x')\nprint('ESCAPED')"
    ),
    "write where all may": (
        "for d in ('/tmp', '/var/tmp', '/dev/shm', '/run'):\n    attempt(lambda: open(d + '/abuse-$MARK', 'w'))"
    ),
    "shared memory": (
        "from multiprocessing import shared_memory\ns = shared_memory.SharedMemory('abuse-$MARK', True, "
        "100)\nprint('ESCAPED')"
    ),
    "a named pipe": "os.mkfifo('pipe')\nprint('ESCAPED')",
    "a device": "os.mknod('disk', 0o60600, os.makedev(8, 0))\nprint('ESCAPED')",
}

NETWORK = {
    "TCP over IPv4": "socket.create_connection(('127.0.0.1', $TCP4), 1).send(b'abuse')",
    "TCP over IPv6": "socket.create_connection(('::1', $TCP6), 1).send(b'abuse')",
    "UDP": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'abuse', ('127.0.0.1', $UDP))",
    "a raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\nprint('ESCAPED')",
    "a packet socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\nprint('ESCAPED')",
    "a netlink socket": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)\nprint('ESCAPED')",
    "a Unix socket": "s = socket.socket(socket.AF_UNIX)\ns.connect('$UNIX')\ns.send(b'abuse')",
    "an abstract Unix socket": "s = socket.socket(socket.AF_UNIX)\ns.connect('\\0$ABSTRACT')\ns.send(b'abuse')",
    "datagrams to a Unix socket": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'abuse', '$DGRAM')",
    "datagrams from one of a pair": (
        "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\na.sendto(b'abuse', '$DGRAM')"
    ),
    "datagrams from one of a pair, by a message": (
        "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\na.sendmsg([b'abuse'], [], 0, '$DGRAM')"
    ),
    "a stream of a pair, connected again": (
        "a, b = socket.socketpair()\nattempt(a.sendto, b'abuse', '$UNIX')\na.connect('$UNIX')\na.send(b'abuse')"
    ),
    "listen": "s = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()\nprint('ESCAPED')",
    "listen on a Unix socket": "s = socket.socket(socket.AF_UNIX)\ns.bind('here')\nprint('ESCAPED')",
    "a 32-bit system call for a socket": "print('ESCAPED' if call(0x40000000 + 41, 2, 1, 0) >= 0 else '')",
}

PROCESSES = {
    "fork": "if os.fork() == 0: time.sleep(30)\nprint('ESCAPED')",
    "fork twice, away from the session": (
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(30)\n    os._exit(0)\n"
        "os.wait()"  # or its group may be killed before it has left it
    ),
    "vfork": "print('ESCAPED' if call(58) > 0 else '')",
    "clone, with a raw system call": (
        "pid = call(56, 17, 0, 0, 0, 0)\nif pid == 0: time.sleep(30)\nprint('ESCAPED' if pid > 0 else '')"
    ),
    "clone3": (
        "pid = call(435, struct.pack('8Q', 0, 0, 0, 0, 17, 0, 0, 0), 64)\nif pid == 0: time.sleep(30)\n"
        "print('ESCAPED' if pid > 0 else '')"
    ),
    "a command": "os.system('touch $FOLDER/abuse')",
    "a subprocess": "import subprocess\nsubprocess.Popen(['sleep', '30'], start_new_session=True)\nprint('ESCAPED')",
    "posix_spawn": "os.posix_spawn('/bin/sleep', ['sleep', '30'], {})\nprint('ESCAPED')",
    "exec": "os.execv('/bin/echo', ['echo', 'ESCAPED'])",
    "exec of a descriptor": "os.execve(os.open('/bin/echo', os.O_RDONLY), ['echo', 'ESCAPED'], {})",
    "exec of a file of its own": (
        "import shutil\nshutil.copy('/bin/echo', 'mine')\nos.chmod('mine', 0o755)\n"
        "os.execv('./mine', ['mine', 'ESCAPED'])"
    ),
    "exec through the loader": "os.execv('/lib64/ld-linux-x86-64.so.2', ['ld', '/bin/echo', 'ESCAPED'])",
    "multiprocessing": (
        "import multiprocessing as m\nm.Process(target=time.sleep, args=(30,)).start()\nprint('ESCAPED')"
    ),
    "fork bomb": "for _ in range($TASKS):\n    attempt(os.fork)\ntime.sleep(0.3)",
    "kill the host": "os.kill($HOST, signal.SIGUSR1)\nprint('ESCAPED')",
    "kill another process": "os.kill($CANARY, signal.SIGKILL)",
    "kill the parent": "os.kill(os.getppid(), signal.SIGKILL)\nprint('ESCAPED')",
    "kill everything": "os.kill(-1, signal.SIGTERM)\nprint('ESCAPED')",
    "kill its group": "os.killpg(0, signal.SIGTERM)\nprint('ESCAPED')",
    "signal by a descriptor": (
        "fd = os.pidfd_open(os.getppid())\nsignal.pidfd_send_signal(fd, signal.SIGKILL)\nprint('ESCAPED')"
    ),
    "signal with a value": "print('ESCAPED' if call(129, $CANARY, 15, struct.pack('128x')) == 0 else '')",
    "signal to a thread": "print('ESCAPED' if call(200, $CANARY, 9) == 0 else '')",
    "signal by a file's owner": (
        "import fcntl\nr, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETOWN, $CANARY)\nfcntl.fcntl(r, 10, 9)\n"
        "fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC)\nos.write(w, b'x')"
    ),
    "trace the parent": "print('ESCAPED' if libc.ptrace(16, os.getppid(), 0, 0) == 0 else '')",
    "trace another process": "print('ESCAPED' if libc.ptrace(16, $CANARY, 0, 0) == 0 else '')",
    "be traced by the parent": "print('ESCAPED' if libc.ptrace(0, 0, 0, 0) == 0 else '')",
    "read another process": (
        "b = ctypes.create_string_buffer(8)\nv = struct.pack('QQ', ctypes.addressof(b), 8)\n"
        "print('ESCAPED' if call(310, os.getppid(), v, 1, v, 1, 0) > 0 else '')"
    ),
    "limits of another process": "import resource\nresource.prlimit($CANARY, resource.RLIMIT_NOFILE, (10, 10))",
    "priority of another process": "os.setpriority(os.PRIO_PROCESS, $CANARY, 19)",
    "processors of another process": "os.sched_setaffinity($CANARY, {min(os.sched_getaffinity($CANARY))})",
    "descriptor of another process": (
        "fd = os.pidfd_open(os.getppid())\nprint('ESCAPED' if call(438, fd, 1, 0) >= 0 else '')"
    ),
    "outlive the run": "import atexit\natexit.register(lambda: os.fork() or time.sleep(30))\nos.setsid()",
}

KERNEL = {
    "mount": "print('ESCAPED' if libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0 else '')",
    "make a mount writable": (
        "print('ESCAPED' if any(libc.mount(None, m, None, 32 | 4096, None) == 0 for m in (b'/', b'/usr')) else '')"
    ),
    "unmount": "print('ESCAPED' if any(libc.umount2(m, 2) == 0 for m in (b'/proc', b'/.program', b'/usr')) else '')",
    "new mount system calls": (
        "print('ESCAPED' if call(428, -100, b'/', 1) >= 0 or call(430, b'tmpfs', 0) >= 0 else '')"
    ),
    "a user namespace": "print('ESCAPED' if libc.unshare(0x10000000) == 0 else '')",
    "a mount namespace": "print('ESCAPED' if libc.unshare(0x20000) == 0 else '')",
    "a thread in a user namespace": "print('ESCAPED' if call(56, 0x10000000 | 17, 0, 0, 0, 0) > 0 else '')",
    "join a namespace": "print('ESCAPED' if libc.setns(os.open('/proc/1/ns/net', os.O_RDONLY), 0) == 0 else '')",
    "chroot": "os.mkdir('r')\nos.chroot('r')\nprint('ESCAPED')",
    "pivot_root": "print('ESCAPED' if call(155, b'.', b'.') == 0 else '')",
    "become root": "attempt(os.setresuid, 0, 0, 0)\nprint('ESCAPED' if os.getresuid() == (0, 0, 0) else '')",
    "become another user": "os.setresuid(1, 1, 1)\nprint('ESCAPED')",
    "capabilities": (
        "h = struct.pack('II', 0x20080522, 0)\nprint('ESCAPED' if libc.capset(h, struct.pack('6I', "
        "*[0xFFFFFFFF] * 6)) == 0 else '')"
    ),
    "has it capabilities": (
        "d = ctypes.create_string_buffer(24)\nlibc.capget(struct.pack('II', 0x20080522, 0), d)\n"
        "print('ESCAPED' if any(d.raw) else '')"
    ),
    "survive the server": "print('ESCAPED' if libc.prctl(1, 0, 0, 0, 0) == 0 else '')",
    "take the filter off": "print('ESCAPED' if libc.prctl(22, 0, 0, 0, 0) == 0 else '')",
    "raise a limit": (
        "import resource as r\nr.setrlimit(r.RLIMIT_AS, (r.RLIM_INFINITY, r.RLIM_INFINITY))\nprint('ESCAPED')"
    ),
    "raise a limit with a raw system call": (
        "print('ESCAPED' if call(302, 0, 9, struct.pack('QQ', 1 << 62, 1 << 62), None) == 0 else '')"
    ),
    "io_uring": "print('ESCAPED' if call(425, 8, ctypes.create_string_buffer(120)) >= 0 else '')",
    "memfd": "os.memfd_create('abuse')\nprint('ESCAPED')",
    "secret memory": "print('ESCAPED' if call(447, 0) >= 0 else '')",
    "bpf": "print('ESCAPED' if call(321, 0, struct.pack('IIII', 1, 4, 4, 1), 16) >= 0 else '')",
    "perf": "print('ESCAPED' if call(298, struct.pack('II', 1, 112) + bytes(104), 0, -1, -1, 0) >= 0 else '')",
    "userfaultfd": "print('ESCAPED' if call(323, 1) >= 0 else '')",
    "keys": "print('ESCAPED' if call(248, b'user', b'abuse', b'x', 1, -3) >= 0 else '')",
    "System V shared memory": "print('ESCAPED' if call(29, 0, 4096, 0o1600) >= 0 else '')",
    "a message queue": "print('ESCAPED' if call(240, b'abuse', 0o102, 0o600, None) >= 0 else '')",
    "watch files": "print('ESCAPED' if call(253) >= 0 or call(294, 0) >= 0 else '')",
    "the kernel's log": "b = ctypes.create_string_buffer(4096)\nprint('ESCAPED' if call(103, 3, b, 4096) > 0 else '')",
    "set the clock": "print('ESCAPED' if call(227, 0, struct.pack('qq', int(time.time()), 0)) == 0 else '')",
    "name the host": "print('ESCAPED' if libc.sethostname(b'abuse', 5) == 0 else '')",
    "type into the terminal": "import fcntl\nfcntl.ioctl(0, 0x5412, b'x')\nprint('ESCAPED')",
    "settings of the kernel": "open('/proc/sys/kernel/printk', 'r+').write('7')\nprint('ESCAPED')",
    "score of the memory killer": "open(f'/proc/{os.getppid()}/oom_score_adj', 'w').write('1000')\nprint('ESCAPED')",
    "devices": (
        "for d in ('/dev/mem', '/dev/kmsg', '/dev/vda', '/dev/sda', '/dev/fuse', '/dev/net/tun', "
        "'/dev/kvm', '/dev/ptmx'):\n"
        "    if attempt(os.open, d, os.O_RDWR) is not None: print('ESCAPED', d)"
    ),
}

BOMBS = {
    "endless loop": "while True: pass",
    "endless loop in C": "sum(iter(int, 1))",
    "sleep": "time.sleep(60)",
    "ignore signals": (
        "for n in range(1, 64): attempt(signal.signal, n, signal.SIG_IGN)\nwhile True: attempt(time.sleep, 60)"
    ),
    "backtracking": "import re\nre.match('(a+)+$$', 'a' * 40 + 'b')",
    "memory": "a = []\nwhile True: a.append(bytearray(1 << 24))",
    "memory at once": "a = bytearray(1 << 40)",
    "memory by mmap": (
        "import mmap\na = []\nfor _ in range(300):\n    m = mmap.mmap(-1, 1 << 24)\n"
        "    m[:] = b'x' * (1 << 24)\n    a.append(m)"
    ),
    "memory by a string": "a = 'x' * 10\nwhile True: a += a",
    "recursion": "sys.setrecursionlimit(10**7)\nf = lambda n: f(n + 1)\nf(0)",
    "big number": "print(len(str(9 ** 9 ** 9)))",
    "threads": (
        "e = threading.Event()\nfor _ in range($TASKS):\n"
        "    attempt(threading.Thread(target=e.wait, daemon=True).start)\ntime.sleep(0.5)"
    ),
    "threads with raw system calls": (
        "import mmap\nlibc.usleep.restype = None\n"
        "threading.stack_size(65536)\nfor _ in range($TASKS):\n"
        "    attempt(threading.Thread(target=libc.usleep, args=(900_000,), daemon=True).start)\ntime.sleep(0.5)"
    ),
    "output": "while True: print('x' * 10_000)",
    "errors": "while True: os.write(2, b'x' * 65536)",
    "output without line ends": "while True: os.write(1, bytes(65536))",
    "a large file": "f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 20))",
    "a large sparse file": "open('big', 'wb').truncate(1 << 40)",
    "many large files": (
        "for n in range(20):\n    attempt(lambda: open(str(n), 'wb').write(bytes(15 << 20)))\ntime.sleep(0.5)"
    ),
    "large files that are not there": (
        "files = []\nfor n in range(100):\n    f = open('x', 'wb')\n    files.append(f)\n    os.unlink('x')\n"
        "    attempt(f.write, bytes(15 << 20))\n    attempt(f.flush)\ntime.sleep(0.5)"
    ),
    "large files that are mapped and deleted": (
        "import mmap\nkept = []\nfor n in range(100):\n"
        "    f = os.open('x', os.O_RDWR | os.O_CREAT)\n    os.unlink('x')\n"
        "    if attempt(os.posix_fallocate, f, 0, 15 << 20) is None: kept.append(attempt(mmap.mmap, f, 4096))\n"
        "    os.close(f)\ntime.sleep(0.5)"
    ),
    "files in a folder that cannot be listed": (
        "os.mkdir('d', 0o300)\n"
        "for n in range(60):\n    attempt(lambda: open(f'd/{n}', 'wb').write(bytes(15 << 20)))\ntime.sleep(0.5)"
    ),
    "folders of long names": (
        "for n in range(20_000):\n    os.mkdir('x' * 250)\n    os.chdir('x' * 250)\n"
        "    open('f', 'wb').write(bytes(1 << 20))\ntime.sleep(0.5)"
    ),
    "timers": (
        "made = 0\nid = ctypes.c_void_p()\n"
        "while made < 10_000 and libc.timer_create(1, None, ctypes.byref(id)) == 0: made += 1\n"
        "print('ESCAPED' if made == 10_000 else '')"
    ),
    "a lock on a file of the host": (
        "import fcntl\n"
        "try:\n    fcntl.flock(open(os.__file__), fcntl.LOCK_SH)\n    print('ESCAPED')\nexcept OSError: pass"
    ),
    "many files": "for n in range(20_000): open(str(n), 'w').close()\ntime.sleep(0.5)",
    "many folders": "for n in range(20_000):\n    os.mkdir('d')\n    os.chdir('d')\ntime.sleep(0.5)",
    "many links": "open('a', 'w')\nfor n in range(20_000): os.link('a', str(n))",
    "many descriptors": "fds = []\nwhile len(fds) < 100_000: fds.append(os.dup(0))",
    "many pipes": (
        "p = []\nwhile len(p) < 100_000:\n    p.append(os.pipe())\n    os.set_blocking(p[-1][1], False)\n"
        "    os.write(p[-1][1], bytes(65536))"
    ),
    "large pipes": "import fcntl\nr, w = os.pipe()\nfcntl.fcntl(w, 1031, 1 << 20)\nprint('ESCAPED')",
    "locked memory": "print('ESCAPED' if libc.mlockall(3) == 0 else '')",
    "crash": "ctypes.string_at(0)",
    "abort": "os.abort()",
    "close everything": "os.closerange(0, 100)\nwhile True: pass",
    "stop": "os.kill(os.getpid(), signal.SIGSTOP)",
    "a report of its own": 'for fd in range(3, 64): attempt(os.write, fd, b\'{"status": 0, "stopped": ""}\')',
    "an answer that is a pickle": "import pickle\nos.write(1, pickle.dumps(os.system))",
}

PROGRAMS = {**SECRETS, **LIBRARIES, **WRITES, **NETWORK, **PROCESSES, **KERNEL, **BOMBS}


def program(name: str, planted: dict[str, str]) -> str:
    """The text of a program, with the names of what was planted."""
    return PRELUDE + Template(PROGRAMS[name]).substitute(planted)
