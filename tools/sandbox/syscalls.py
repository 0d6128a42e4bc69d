"""The system calls that a Python program needs, with their numbers: the allow list of `seccomp`.

All others are unavailable to a program: new processes, other programs, sockets, signals to others, tracing, mounts,
namespaces, keys, memory without a file system (memfd), io_uring, and the calls of later kernels. The numbers are those
of the kernel's tables for x86-64 and for arm64 ("-": no such call).
"""

import platform

from agentflow.tools.sandbox.limits import SandboxError

_TABLE = """
# Files and folders; which ones is Landlock's to say.
read 0 63, write 1 64, close 3 57, open 2 -, openat 257 56, stat 4 -, lstat 6 -, fstat 5 80, newfstatat 262 79,
statx 332 291, lseek 8 62, pread64 17 67, pwrite64 18 68, readv 19 65, writev 20 66, preadv 295 69, pwritev 296 70,
preadv2 327 286, pwritev2 328 287, access 21 -, faccessat 269 48, faccessat2 439 439, readlink 89 -,
readlinkat 267 78, getdents 78 -, getdents64 217 61, getcwd 79 17, chdir 80 49, fchdir 81 50, mkdir 83 -,
mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35, rename 82 -, renameat 264 38, renameat2 316 276, link 86 -,
linkat 265 37, symlink 88 -, symlinkat 266 36, ftruncate 77 46, fallocate 285 47, fsync 74 82,
fdatasync 75 83, umask 95 166, statfs 137 43, fstatfs 138 44, fadvise64 221 223, sendfile 40 71,
copy_file_range 326 285, dup 32 23, dup2 33 -, dup3 292 24, pipe 22 -, pipe2 293 59, close_range 436 436, fcntl 72 25,
ioctl 16 29, getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10, listxattr 194 11, llistxattr 195 12,
flistxattr 196 13,
# Modes and times of files, which Landlock does not govern.
chmod 90 -, fchmod 91 52, fchmodat 268 53, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88,
# Memory.
mmap 9 222, munmap 11 215, mremap 25 216, mprotect 10 226, madvise 28 233, brk 12 214, mincore 27 232, msync 26 227,
mlock 149 228, munlock 150 229,
# Waiting and events.
poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, epoll_create 213 -, epoll_create1 291 20, epoll_ctl 233 21,
epoll_wait 232 -, epoll_pwait 281 22, epoll_pwait2 441 441, eventfd 284 -, eventfd2 290 19, timerfd_create 283 85,
timerfd_settime 286 86, timerfd_gettime 287 87, signalfd 282 -, signalfd4 289 74, nanosleep 35 101,
clock_nanosleep 230 115,
# A connected pair of sockets, which asyncio needs: nothing that reaches another process.
socketpair 53 199, sendto 44 206, recvfrom 45 207, recvmsg 47 212, shutdown 48 210, getsockopt 55 209,
setsockopt 54 208, getsockname 51 204, getpeername 52 205,
# Threads; and processes, which `seccomp` refuses by the arguments of clone.
clone 56 220, exit 60 93, exit_group 231 94, futex 202 98, futex_waitv 449 449, set_robust_list 273 99,
get_robust_list 274 100, rseq 334 293, set_tid_address 218 96, gettid 186 178, sched_yield 24 124,
sched_getaffinity 204 123, sched_getscheduler 145 120, sched_getparam 143 121, sched_get_priority_max 146 125,
sched_get_priority_min 147 126, membarrier 324 283, getcpu 309 168, wait4 61 260, waitid 247 95,
# Signals and timers.
rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136, rt_sigsuspend 130 133,
rt_sigtimedwait 128 137, sigaltstack 131 132, pause 34 -, alarm 37 -, setitimer 38 103, getitimer 36 102, kill 62 129,
tgkill 234 131, restart_syscall 219 128, timer_create 222 107, timer_settime 223 110, timer_gettime 224 108,
timer_getoverrun 225 109, timer_delete 226 111,
# Questions about the process itself, the time, random numbers.
getpid 39 172, getppid 110 173, getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177, getresuid 118 148,
getresgid 120 150, getgroups 115 158, getpgrp 111 -, getpgid 121 155, getsid 124 156, clock_gettime 228 113,
clock_getres 229 114, gettimeofday 96 169, time 201 -, times 100 153, getrandom 318 278, getrusage 98 165,
getrlimit 97 163, setrlimit 160 164, prlimit64 302 261, uname 63 160, sysinfo 99 179, prctl 157 167, arch_prctl 158 -,
getpriority 140 141, capget 125 90,
"""

_COLUMNS = {"x86_64": 1, "aarch64": 2}


def numbers() -> dict[str, int]:
    """Return the numbers by name for this machine. Raises SandboxError if the table does not cover it."""
    column = _COLUMNS.get(platform.machine())
    if column is None:
        raise SandboxError(f"there is no table of system calls for {platform.machine()}", code="unknown_machine")
    lines = (line for line in _TABLE.splitlines() if not line.startswith("#"))
    rows = (entry.split() for entry in " ".join(lines).split(",") if entry.strip())
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}
