"""Programs as models write them: in every tier they do what they do outside."""

import textwrap
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.sandboxes import TIERS, close_all, run, server

PROGRAMS: dict[str, tuple[str, str]] = {
    "print": ("print(12 * 7)", "84"),
    "last expression": ("x = 20\nx + 1", "21"),
    "last expression is None": ("print('a')\nprint('b')", "a\nb"),
    "function": ("def f(a, b=2, *c, d, **e):\n    return a + b + sum(c) + d\nprint(f(1, 2, 3, d=4))", "10"),
    "recursion": ("def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nprint(f(20))", "6765"),
    "deep recursion": (
        "import sys\nsys.setrecursionlimit(6000)\ndef f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\nprint(f(5000))",
        "5000",
    ),
    "closure": (
        "def counter():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n"
        "        return n\n    return up\n"
        "up = counter()\nup()\nprint(up())",
        "2",
    ),
    "global": ("n = 1\ndef f():\n    global n\n    n = 5\nf()\nprint(n)", "5"),
    "comprehension sees globals": ("k = 3\ndef f():\n    return [k * i for i in range(3)]\nprint(f())", "[0, 3, 6]"),
    "class": (
        "class A:\n    def __init__(self, n): self.n = n\n    def __add__(self, o): return A(self.n + o.n)\n"
        "class B(A):\n    @property\n    def twice(self): return 2 * self.n\nprint((A(1) + A(2)).n, B(4).twice)",
        "3 8",
    ),
    "dataclass": (
        "from dataclasses import dataclass\n@dataclass(order=True)\nclass P:\n    x: int\n    y: int = 0\n"
        "print(max(P(1), P(2, 3)))",
        "P(x=2, y=3)",
    ),
    "enum": ("from enum import Enum\nclass C(Enum):\n    RED = 1\nprint(C.RED, C(1).name)", "C.RED RED"),
    "generator": (
        "def primes():\n    n = 2\n    while True:\n"
        "        if all(n % d for d in range(2, n)): yield n\n        n += 1\n"
        "from itertools import islice\nprint(list(islice(primes(), 5)))",
        "[2, 3, 5, 7, 11]",
    ),
    "match": ("match {'a': [1, 2]}:\n    case {'a': [x, *rest]}:\n        print(x, rest)", "1 [2]"),
    "walrus": ("print([y for x in range(5) if (y := x * x) > 3])", "[4, 9, 16]"),
    "exception": (
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    print(e)\nfinally:\n    print('end')",
        "division by zero\nend",
    ),
    "context manager": (
        "from contextlib import contextmanager\n@contextmanager\ndef c():\n    print('in')\n"
        "    yield 1\n    print('out')\n"
        "with c() as v:\n    print(v)",
        "in\n1\nout",
    ),
    "decorator": (
        "from functools import lru_cache\n@lru_cache(None)\ndef f(n):\n"
        "    return 1 if n < 2 else n * f(n - 1)\nprint(f(10))",
        "3628800",
    ),
    "main": ("def main():\n    print('main')\nif __name__ == '__main__':\n    main()", "main"),
    "exit": ("import sys\nprint('before')\nsys.exit(0)\nprint('after')", "before"),
    "exit in a function": ("def f():\n    print('before')\n    exit()\nf()\nprint('after')", "before"),
    "at exit": ("import atexit\natexit.register(print, 'end')\nprint('start')", "start\nend"),
    "finalizer at the end": ("class A:\n    def __del__(self): print('gone')\na = A()\nprint('here')", "here\ngone"),
    "pickle of an own class": ("import pickle\nclass A:\n    n = 4\nprint(pickle.loads(pickle.dumps(A())).n)", "4"),
    "file": ("with open('a.txt', 'w') as f:\n    f.write('kept')\nprint(open('a.txt').read())", "kept"),
    "its own text": ("print(len(open(__file__).read()))", "33"),
    "temporary files": (
        "import tempfile, os, shutil\nwith tempfile.TemporaryDirectory() as d:\n    p = os.path.join(d, 'x')\n"
        "    open(p, 'w').write('1')\n    shutil.copy(p, p + '2')\n    print(sorted(os.listdir(d)))",
        "['x', 'x2']",
    ),
    "module of its own": ("open('mine.py', 'w').write('n = 7')\nimport mine\nprint(mine.n)", "7"),
    "csv": (
        "import csv, io\nrows = list(csv.DictReader(io.StringIO('a,b\\n1,2\\n3,4')))\n"
        "print(sum(int(r['b']) for r in rows))",
        "6",
    ),
    "json": (
        "import json\nprint(json.dumps({'b': [1, None], 'a': 'é'}, sort_keys=True, ensure_ascii=False))",
        '{"a": "é", "b": [1, null]}',
    ),
    "regular expression": ("import re\nprint(re.findall(r'\\d+', 'a1b22'))", "['1', '22']"),
    "dates": ("from datetime import date, timedelta\nprint(date(2024, 2, 28) + timedelta(days=2))", "2024-03-01"),
    "time zone": (
        "from datetime import datetime\nfrom zoneinfo import ZoneInfo\n"
        "print(datetime(2024, 7, 1, 12, tzinfo=ZoneInfo('Europe/Paris')).utcoffset())",
        "2:00:00",
    ),
    "decimal and fraction": (
        "from decimal import Decimal\nfrom fractions import Fraction\nprint(Decimal('0.1') * 3, Fraction(1, 3) + 1)",
        "0.3 4/3",
    ),
    "combinations": (
        "from itertools import permutations\nprint(sum(1 for p in permutations(range(8)) if p[0] < p[1]))",
        "20160",
    ),
    "heap and counter": (
        "import heapq\nfrom collections import Counter\n"
        "print(heapq.nsmallest(2, [5, 1, 4]), Counter('abca').most_common(1))",
        "[1, 4] [('a', 2)]",
    ),
    "seeded random": ("import random\nrandom.seed(1)\nprint(random.randint(1, 100), random.randint(1, 100))", "18 73"),
    "large numbers": ("print(len(str(2 ** 10_000)), pow(3, 10 ** 6, 1_000_003))", "3011 222223"),
    "threads": (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(8) as pool:\n"
        "    print(sum(pool.map(lambda n: n * n, range(100))))",
        "328350",
    ),
    "a thread outlives the last line": (
        "import threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print('late'))).start()\nprint('early')",
        "early\nlate",
    ),
    "asyncio": (
        "import asyncio\nasync def f(n):\n    await asyncio.sleep(0.001)\n    return n\n"
        "async def main():\n    print(await asyncio.gather(*map(f, range(3))))\nasyncio.run(main())",
        "[0, 1, 2]",
    ),
    "alarm": (
        "import signal, time\ndef on(*a): raise TimeoutError('alarm')\nsignal.signal(signal.SIGALRM, on)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.05)\ntry:\n    time.sleep(5)\nexcept TimeoutError as e:\n    print(e)",
        "alarm",
    ),
    "sqlite": (
        "import sqlite3\ndb = sqlite3.connect('x.db')\ndb.execute('create table t (n int)')\n"
        "db.executemany('insert into t values (?)', [(i,) for i in range(5)])\ndb.commit()\n"
        "print(db.execute('select sum(n) from t').fetchone())",
        "(10,)",
    ),
    "hash and base64": (
        "import hashlib, base64\nprint(hashlib.sha256(b'a').hexdigest()[:8], base64.b64encode(b'ab').decode())",
        "ca978112 YWI=",
    ),
    "output that is redirected": ("import io, sys\nprint('a')\nsys.stdout = io.StringIO()\nprint('b')", "a"),
    "output that is closed": ("import sys\nprint('a')\nsys.stdout.close()", "a"),
    "standard input is empty": ("import sys\nprint(repr(sys.stdin.read()))", "''"),
    "text that is not ASCII": ("print('é ☃ 𝄞')", "é ☃ 𝄞"),
    "type hints": (
        "from typing import TypeVar, Generic\nT = TypeVar('T')\nclass B(Generic[T]):\n"
        "    x: 'list[T]'\nprint(B.__annotations__)",
        "{'x': 'list[T]'}",
    ),
    "numpy": (
        "import numpy as np\na = np.arange(6).reshape(2, 3)\nprint((a @ a.T).tolist(), np.linalg.det(np.eye(3)))",
        "[[5, 14], [14, 50]] 1.0",
    ),
    "sympy": ("from sympy import symbols, solve\nx = symbols('x')\nprint(solve(x**2 - 5*x + 6, x))", "[2, 3]"),
    "scipy": ("from scipy import optimize\nprint(round(optimize.brentq(lambda x: x**2 - 2, 0, 2), 6))", "1.414214"),
    "pandas": (
        "import pandas as pd\nd = pd.DataFrame({'k': ['a', 'b', 'a'], 'v': [1, 2, 3]})\n"
        "print(d.groupby('k').v.sum().to_dict())",
        "{'a': 4, 'b': 2}",
    ),
}


@pytest.fixture(scope="module", autouse=True)
def servers() -> Iterator[None]:
    yield
    close_all()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_prints_what_it_should(tier: str, name: str) -> None:
    code, printed = PROGRAMS[name]
    if name in ("sympy", "scipy", "pandas") and find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    outcome = run(server(tier), textwrap.dedent(code))
    assert (outcome.stdout, outcome.status, outcome.stopped, outcome.tier) == (printed, 0, "", tier), outcome.stderr


@pytest.mark.parametrize("tier", TIERS)
def test_state_does_not_leak_into_the_next_run(tier: str) -> None:
    change = (
        "import builtins, json, math, os, random, sys, numpy\nbuiltins.leak = json.leak = math.pi = 3\n"
        "random.seed(1)\nnumpy.random.seed(1)\nos.environ['LEAK'] = '1'\nsys.path.append('/leak')\n"
        "open('left', 'w').write('x')\nos.chdir('/tmp') if os.path.isdir('/tmp') else None"
    )
    look = (
        "import builtins, json, math, os, sys\n"
        "print(hasattr(builtins, 'leak'), hasattr(json, 'leak'), math.pi, 'LEAK' in os.environ, '/leak' in sys.path,"
        " os.listdir('.'), [name for name in sys.modules if name.startswith('agentflow')])"
    )
    assert run(server(tier), change).status == 0
    assert run(server(tier), look).stdout == "False False 3.141592653589793 False False ['program.py'] []"


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    "draw", ["import random\nprint(random.random())", "import numpy\nprint(numpy.random.random())"]
)
def test_random_numbers_differ_between_runs(tier: str, draw: str) -> None:
    assert len({run(server(tier), draw).stdout for _ in range(3)}) == 3
