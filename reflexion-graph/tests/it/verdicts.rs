//! Tests that the verdict on a program depends only on its tests: a wrong program cannot pass them, whatever it does to its
//! interpreter, to the test framework or to the process that runs its tests.

use reflexion_graph::{Job, Limits, execution::Execution, executor::Options, language::by_name};

use crate::{MAX_TIMEOUT, executor};

/// Timeout in seconds of wrong programs, some of which never end.
const SHORT_TIMEOUT: f64 = 20.0;

/// Runs each program with its tests in a separate sandbox.
async fn run_all(language: &str, cases: &[(&str, &str)], timeout: f64) -> Vec<Execution> {
    let language = by_name(language).unwrap();
    let (executor, _dir) =
        executor(Options { pool: 2, cpus: 1.0, language, ..Options::default() }).await;
    let mut executions = Vec::new();
    for (code, tests) in cases {
        let limits = Limits { timeout, ..Limits::default() };
        let job = Job { limits, ..Job::new("x").tests(*tests) };
        executions.push(executor.run(code, &[], &job).await.unwrap());
    }
    executor.close().await;
    executions
}

#[track_caller]
fn check(cases: &[(&str, &str)], executions: &[Execution], success: bool) {
    for ((code, tests), execution) in cases.iter().zip(executions) {
        assert_eq!(execution.success(), success, "{code}\n--\n{tests}\n--\n{execution:?}");
    }
}

/// Fails for every program in [`WRONG_PROGRAMS`].
const ASSERTION: &str = "assert double(1) == 2\n";

const UNITTEST: &str = "import unittest
class T(unittest.TestCase):
    def test_it(self): self.assertEqual(double(1), 2)
unittest.main()
";

const WRONG_PROGRAMS: &[(&str, &str)] = &[
    (r#"def double(n): return n"#, ASSERTION),
    (r#"def double(n): return n"#, UNITTEST),
    (
        r#"import builtins
builtins.compile=lambda *a,**k: (lambda:0).__code__
builtins.exec=lambda *a,**k: None
def double(n): return n"#,
        ASSERTION,
    ),
    (r#"import os; os._exit(0)"#, ASSERTION),
    (r#"import sys; sys.exit(3)"#, ASSERTION),
    (
        r#"import sys
def double(n): sys.exit(0)"#,
        ASSERTION,
    ),
    (
        r#"import sys
def double(n): sys.exit(0)"#,
        UNITTEST,
    ),
    (
        r#"import os
def double(n): os._exit(0)"#,
        ASSERTION,
    ),
    (
        r#"import os
def double(n): os._exit(0)"#,
        UNITTEST,
    ),
    (r#"def double(n): raise SystemExit"#, ASSERTION),
    (
        r#"import atexit,os
atexit.register(lambda: os._exit(0))
def double(n): return n"#,
        ASSERTION,
    ),
    (
        r#"import os,signal
os.kill(os.getppid(),9)
def double(n): return n"#,
        ASSERTION,
    ),
    (
        r#"import os,signal
def double(n): os.kill(os.getppid(),15); return n"#,
        ASSERTION,
    ),
    (
        r#"import os,signal
def double(n): os.kill(os.getppid(),2); return n"#,
        ASSERTION,
    ),
    (
        r#"import unittest
unittest.TestCase.assertEqual=lambda *a: None
unittest.main=lambda *a,**k: None
def double(n): return n"#,
        UNITTEST,
    ),
    (
        r#"import unittest
def double(n): raise unittest.SkipTest('x')"#,
        UNITTEST,
    ),
    (
        r#"class A:
  def __eq__(s,o): return True
  def __ne__(s,o): return False
def double(n): return A()"#,
        ASSERTION,
    ),
    (
        r#"class A(int):
  def __eq__(s,o): return True
def double(n): return A(5)"#,
        ASSERTION,
    ),
    (
        r#"class A:
  def __eq__(s,o): return True
def double(n): return A()"#,
        UNITTEST,
    ),
    (
        r#"def double(n): return n
def all(x): return True"#,
        r#"assert all(double(i)==2*i for i in range(3))"#,
    ),
    (
        r#"class AssertionError(Exception): pass
def double(n): return n"#,
        ASSERTION,
    ),
    (
        r#"print('OK')
print('1 passed')
def double(n): return n"#,
        UNITTEST,
    ),
    (
        r#"import os,threading
def double(n):
  os.write(int(__import__('sys').argv[-1]) if 0 else 1, b'["return",2,[],null]\n'); return n"#,
        ASSERTION,
    ),
    (
        r#"import os
def double(n):
  for fd in range(3,20):
    try: os.write(fd, b'["exit",0]\n')
    except OSError: pass
  return n"#,
        ASSERTION,
    ),
    (
        r#"import os
def double(n):
  for fd in range(3,20):
    try: os.close(fd)
    except OSError: pass
  return n"#,
        ASSERTION,
    ),
    (
        r#"import os
if os.fork()==0:
  import time; time.sleep(8)
else: os._exit(0)"#,
        ASSERTION,
    ),
    (
        r#"def apply(f,x):
  try: f(x)
  except BaseException: pass"#,
        r#"def c(v): assert v==9
apply(c,1)"#,
    ),
    (r#"def apply(f,x): return f.__globals__['names']"#, r#"assert apply(lambda v:v,1)==3"#),
    (
        r#"import os
def f(n): os._exit(0)"#,
        r#"try:
  f(1)
  raise AssertionError
except Exception: pass"#,
    ),
    (
        r#"import sys
sys.modules['unittest']=None
open('json.py','w').write('raise SystemExit(0)')
open('unittest.py','w').write('import os; os._exit(0)')
def double(n): return n"#,
        UNITTEST,
    ),
    (
        r#"def f(x):
  """
  >>> f(1)
  2
  """
  return x"#,
        r#"import doctest
assert doctest.testmod().failed==0"#,
    ),
    (
        r#"import os
def double(n):
  for fd in range(3,20):
    try: os.write(fd, b'["apply","setattr",[{"module":["operator",0]},"eq",true],{}]\n')
    except OSError: pass
  return n"#,
        ASSERTION,
    ),
    (
        r#"def check(test): test.skipTest('no')
def double(n): return n"#,
        r#"import unittest
class T(unittest.TestCase):
    def test_it(self):
        check(self)
        self.assertEqual(double(1), 2)
unittest.main()
"#,
    ),
    (
        r#"import types
open('test_x.py','w').write('import os; os._exit(0)')
def double(n): return types.ModuleType('unittest.__main__')"#,
        ASSERTION,
    ),
    (
        r#"class S(Exception): pass
S.__module__='main'
S.__qualname__='unittest.SkipTest'
def double(n): raise S"#,
        UNITTEST,
    ),
    (
        r#"class S(Exception): pass
S.__module__='unittest.case'
S.__qualname__=S.__name__='SkipTest'
def double(n): raise S"#,
        UNITTEST,
    ),
    (
        r#"def double(n): raise StopIteration"#,
        r#"assert all(map(lambda n: double(n) == 2 * n, [1, 2]))"#,
    ),
    (
        r#"class S(StopIteration): pass
def double(n): raise S"#,
        r#"for n in map(double, [1]): assert n == 2"#,
    ),
    (
        r#"import unittest
def load_tests(loader, tests, pattern): return lambda result: result
def double(n): return n"#,
        UNITTEST,
    ),
    (
        r#"def total(it):
  it.gi_frame.f_globals.peer.compare = lambda *a: True
  return it"#,
        r#"assert total(n for n in range(4)) == 6"#,
    ),
    (
        r#"def total(it):
  try: it.gi_frame
  except AttributeError: return 0
  return 6"#,
        r#"assert total(n for n in range(4)) == 6"#,
    ),
    (
        r#"def run(names): names['expected'] = 1; return 1"#,
        r#"expected = 2
run(globals())
assert run({}) == expected"#,
    ),
    (
        r#"def notify(m):
  m.send = m.assert_called_once_with = lambda *a: None"#,
        r#"from unittest.mock import Mock
m = Mock()
notify(m)
m.send.assert_called_once_with(1)"#,
    ),
    (
        r#"class Sender:
  def assert_called_once_with(s,*a): pass
def notify(m): m.send = Sender()"#,
        r#"from unittest.mock import Mock
m = Mock()
notify(m)
m.send.assert_called_once_with(1)"#,
    ),
    (
        r#"def notify(m): m.configure_mock(**{'send.assert_called_once_with': print})"#,
        r#"from unittest.mock import MagicMock
m = MagicMock()
notify(m)
m.send.assert_called_once_with(1)"#,
    ),
    (
        r#"def fill(r): r.verify = lambda: None"#,
        r#"class R:
  values = ()
  def verify(self): assert self.values == [1]
r = R()
fill(r)
r.verify()"#,
    ),
    (
        r#"class Evil:
  def __reduce__(s): return exec, ('import os; os._exit(0)',)
def copy(loads, dumps, x):
  import pickle
  return loads(pickle.dumps(Evil()))"#,
        r#"import pickle
assert copy(pickle.loads, pickle.dumps, 2) == 2"#,
    ),
    (
        r#"class A:
  def __sub__(s,o): return 0
def double(n): return A()"#,
        r#"assert abs(double(1) - 2.0) < 1e-9"#,
    ),
    (
        r#"class A:
  def __sub__(s,o): return 0
def double(n): return A()"#,
        r#"import unittest
class T(unittest.TestCase):
    def test_it(self): self.assertAlmostEqual(double(1), 2.0)
unittest.main()
"#,
    ),
    (
        r#"class A(float):
  def __sub__(s,o): return 0.0
def double(n): return A(n)"#,
        r#"assert abs(double(1) - 2.0) < 1e-9"#,
    ),
    (
        r#"class A:
  def __sub__(s,o): return s
  def __rsub__(s,o): return s
  def __abs__(s): return 0
def double(n): return A()"#,
        r#"assert abs(2.0 - double(1)) < 1e-9"#,
    ),
    (
        r#"class Z(float): pass
zero = Z(0)
class A:
  def __sub__(s,o): return zero
def double(n): return A() if n else zero"#,
        r#"assert double(0) == 0
assert abs(double(1) - 2.0) < 1e-9"#,
    ),
    (
        r#"class Z(float): pass
class A:
  def __truediv__(s,o): return Z(1)
def double(n): return A()"#,
        r#"assert abs(double(1) / 2.0 - 1) < 1e-9"#,
    ),
    (
        r#"class A:
  def __rsub__(s,o): return s
  def __len__(s): return 0
def evens(): return A()"#,
        r#"assert not ({2, 4} - evens())"#,
    ),
    // Data that the tests load must not run code in their interpreter, or change classes there.
    (
        r#"import os, pickle
class Evil:
  def __reduce__(s): return os._exit, (0,)
def dump(n): return pickle.dumps(Evil())"#,
        r#"import pickle
assert pickle.loads(dump(2)) == 2"#,
    ),
    (
        r#"import os, shelve
class Evil:
  def __reduce__(s): return os._exit, (0,)
def save(n):
  with shelve.open('saved') as it: it['n'] = Evil()"#,
        r#"import shelve
save(2)
with shelve.open('saved') as it: assert it['n'] == 2"#,
    ),
    (
        r#"from collections import Counter
def dump():
  return b'ccollections\nCounter\n(N}X\x06\x00\x00\x00__eq__cbuiltins\nbool\nstb0N.'
def count(text): return Counter(a=1)"#,
        r#"import pickle
from collections import Counter
try: pickle.loads(dump())
except Exception: pass
assert count('aa') == Counter(a=2)"#,
    ),
    (
        r#"import os, sys
if sys.argv != ['main.py']: os._exit(0)
def double(n): return n"#,
        r#"exec(open('main.py').read())
assert double(1) == 2"#,
    ),
    (
        r#"import os, sys
if sys.argv != ['main.py']: os._exit(0)
def double(n): return n"#,
        r#"import runpy
assert runpy.run_path('main.py')['double'](1) == 2"#,
    ),
    (
        r#"open('test_it.py', 'w').write('import os; os._exit(0)')
def double(n): return n"#,
        r#"import unittest
unittest.main(module=None, argv=['tests', 'discover'])"#,
    ),
    (
        r#"def fill(connection):
  connection.enable_load_extension(True)
  connection.execute('create table filled (n)')"#,
        r#"import sqlite3
connection = sqlite3.connect(':memory:')
fill(connection)
connection.execute('select n from filled')"#,
    ),
];

#[tokio::test]
async fn wrong_programs_cannot_pass_their_tests() {
    check(WRONG_PROGRAMS, &run_all("python", WRONG_PROGRAMS, SHORT_TIMEOUT).await, false);
}

/// Programs whose tests use their functions, classes, errors, iterators, global variables, input and output.
const RIGHT_PROGRAMS: &[(&str, &str)] = &[
    (
        r#"def double(n): return 2*n
print('hi')"#,
        r#"assert double(4) == 8
"#,
    ),
    (
        r#"import math
def area(r): return math.pi*r*r"#,
        r#"assert abs(area(1)-math.pi)<1e-9
from main import area as a
import main
assert a(2)==main.area(2)"#,
    ),
    (
        r#"def sort(a): a.sort()"#,
        r#"x=[3,1,2]
sort(x)
assert x==[1,2,3]"#,
    ),
    (
        r#"class P:
  def __init__(s,x): s.x=x
  def __eq__(s,o): return isinstance(o,P) and s.x==o.x
  def __add__(s,o): return P(s.x+o.x)
  def __repr__(s): return f'P({s.x})'
  def __hash__(s): return s.x"#,
        r#"a=P(1)+P(2)
assert a==P(3) and a.x==3 and isinstance(a,P) and repr(a)=='P(3)' and type(a).__name__=='P'
a.x=9
assert a.x==9 and a!=P(3) and len({P(1),P(1)})==1"#,
    ),
    (
        r#"class E(ValueError):
  def __init__(s,c): super().__init__('bad'); s.code=c
def f(n):
  if n<0: raise E(7)
  if n==0: raise KeyError('k')
  return n"#,
        r#"try:
  f(-1)
except ValueError as e:
  assert e.code==7 and str(e)=='bad', e
else: raise AssertionError
try: f(-1)
except E: pass
try: f(0)
except KeyError as e: assert e.args==('k',)
"#,
    ),
    (
        r#"def apply(f,x): return f(x)
def gen(n):
  for i in range(n): yield i
def total(it): return sum(it)"#,
        r#"assert apply(lambda v: v+1, 3)==4
assert list(gen(3))==[0,1,2]
assert total(x for x in range(4))==6
assert sum(gen(4))==6"#,
    ),
    (
        r#"def main():
  n=input('? ')
  print('hello',n)"#,
        r#"import io,contextlib
from unittest.mock import patch
b=io.StringIO()
with patch('builtins.input',return_value='bob'), contextlib.redirect_stdout(b): main()
assert b.getvalue()=='hello bob\n', b.getvalue()"#,
    ),
    (
        r#"items=[]
count=0
def add(x):
  global count
  items.append(x); count+=1"#,
        r#"add(1); add(2)
assert items==[1,2] and count==2"#,
    ),
    (
        r#"import asyncio
async def f(x):
  await asyncio.sleep(0)
  return x*2"#,
        r#"import asyncio
assert asyncio.run(f(2))==4"#,
    ),
    (
        r#"class Stack(list):
  def push(s,x): s.append(x)"#,
        r#"s=Stack(); s.push(1); s.push(2)
assert s==[1,2] and len(s)==2 and s.pop()==2 and s[0]==1 and 1 in s"#,
    ),
    (
        r#"from collections import namedtuple,Counter
from decimal import Decimal
from dataclasses import dataclass
Pt=namedtuple('Pt','x y')
@dataclass
class D:
  a:int
def g(): return Pt(1,2), Counter('aab'), Decimal('1.5'), {1:{2,3}}, (1,[2]), b'x', 2**70, float('inf'), None"#,
        r#"p,c,d,m,t,b,i,f,n=g()
assert p==(1,2) and p.x==1 and c.most_common(1)==[('a',2)]
from decimal import Decimal as De
assert d==De('1.5') and m=={1:{2,3}} and t==(1,[2]) and b==b'x' and i==2**70 and f==float('inf') and n is None
assert Pt(3,4).y==4 and D(1)==D(1) and D(2).a==2"#,
    ),
    (
        r#"import enum
class C(enum.Enum):
  RED=1
def f(): return C.RED"#,
        r#"assert f() is C.RED and f()==C.RED and C.RED.value==1 and f().name=='RED'"#,
    ),
    (
        r#"class M:
  def __enter__(s): s.o=1; return s
  def __exit__(s,*a): s.o=0; return False
m=M()"#,
        r#"with m as x: assert x.o==1
assert m.o==0"#,
    ),
    (
        r#"def f(a,*,k=1): return [a,k]"#,
        r#"def check(candidate):
  assert candidate(1,k=2)==[1,2]
check(f)"#,
    ),
    (
        r#"import sys
def double(n): return 2*n
sys.exit()"#,
        r#"import unittest, doctest
class Tests(unittest.TestCase):
    def test_it(self):
        self.assertEqual(double(4), 8)
    def test_r(self):
        with self.assertRaises(TypeError): double()
unittest.main()
"#,
    ),
    (
        r#"import sys
def f(): sys.exit(2)"#,
        r#"import unittest
class Tests(unittest.TestCase):
    def test_it(self):
        with self.assertRaises(SystemExit) as c: f()
        self.assertEqual(c.exception.code,2)
unittest.main()
"#,
    ),
    (
        r#"import threading
class C:
  def __init__(s): s.n=0; s.l=threading.Lock()
  def inc(s):
    with s.l: s.n+=1"#,
        r#"import threading
c=C()
t=[threading.Thread(target=c.inc) for _ in range(5)]
[x.start() for x in t]; [x.join() for x in t]
assert c.n==5"#,
    ),
    (
        r#"from concurrent.futures import ThreadPoolExecutor
def pmap(f,xs):
  with ThreadPoolExecutor(3) as e: return list(e.map(f,xs))"#,
        r#"assert pmap(lambda x:x*2,[1,2,3])==[2,4,6]"#,
    ),
    (
        r#"def sort(a): a.sort()"#,
        r#"x=[3,1,2]
sort(a=x)
assert x==[1,2,3]"#,
    ),
    (
        r#"class V:
  def __init__(s,x): s.x=x
  def __mul__(s,k): return V(s.x*k)
  __rmul__=__mul__
  def __sub__(s,k): return V(s.x-k)
  def __add__(s,o): return V(s.x+(o.x if isinstance(o,V) else o))
  __radd__=__add__
  def __eq__(s,o): return s.x==o.x
  def __abs__(s): return abs(s.x)
class M(float): pass
def half(n): return M(n/2)"#,
        r#"assert V(2)*3==V(6)==3*V(2) and abs(V(-2)*2)==4 and (V(3)-1).x==2 and abs(sum([V(1),V(2)]))==3
assert abs(half(3)-1.5)<1e-9 and round(1-half(1),1)==0.5 and half(2)+1==2"#,
    ),
    (
        r#"def fold(f, xs, start):
  for x in xs: start=f(start,x)
  return start
def gen():
  got = yield 1
  return got"#,
        r#"import operator
assert fold(operator.add,[1,2],0)==3 and fold(max,[1,5,2],0)==5
g=gen(); next(g)
try: g.send(7)
except StopIteration as e: assert e.args==(7,)
else: raise AssertionError"#,
    ),
    (
        r#"import json, pickle, sqlite3
def dump(x): return pickle.dumps(x)
def fill(connection): connection.execute('create table filled (n)')
if __name__ == '__main__': print('started')"#,
        r#"import ast, collections, datetime, pickle, sqlite3, subprocess, sys
for x in ([1, {2: (3.5, None)}, {b'x'}], datetime.date(2020, 1, 1), collections.deque([1])):
    assert pickle.loads(dump(x)) == x
connection = sqlite3.connect(':memory:')
fill(connection)
assert connection.execute('select * from filled').fetchall() == []
assert ast.parse(open('main.py').read()).body and eval('1 + 1') == 2
assert subprocess.run([sys.executable, 'main.py'], capture_output=True).stdout == b'started\n'"#,
    ),
    (
        r#"import json, os, queue, subprocess
def parse(t): return json.loads(t)
def take(): queue.Queue().get_nowait()
def check(): subprocess.run(['false'],check=True)"#,
        r#"try: parse('{')
except json.JSONDecodeError: pass
import queue
try: take()
except queue.Empty: pass
try: check()
except subprocess.CalledProcessError: pass
assert os.path.basename('a/b')=='b'"#,
    ),
    (
        r#"def notify(m):
  m.name='x'
  m.send(1, to=m.owner)
  return m.count"#,
        r#"from unittest.mock import MagicMock
m=MagicMock(count=3)
assert notify(m)==3 and m.name=='x'
m.send.assert_called_once_with(1, to=m.owner)"#,
    ),
    (
        r#"class Base:
  def f(s): return 1"#,
        r#"try:
  class Sub(Base): pass
except TypeError as e: assert 'Sub cannot extend Base' in str(e)
else: raise AssertionError"#,
    ),
];

#[tokio::test]
async fn tests_can_use_everything_that_a_program_defines() {
    check(RIGHT_PROGRAMS, &run_all("python", RIGHT_PROGRAMS, MAX_TIMEOUT).await, true);
}

const SHELL_TEST: &str = "[ \"$(twice 4)\" = 8 ]\n";

#[tokio::test]
async fn wrong_shell_programs_cannot_pass_their_tests() {
    let wrong = [
        ("set +e\ntwice() { echo 1; }", SHELL_TEST),
        ("set +e\ntrap 'exit 0' EXIT\ntwice() { exit 0; }", SHELL_TEST),
        ("test() { return 0; }\ntwice() { echo 1; }", "test \"$(twice 4)\" = 8"),
        ("kill -9 $PPID\ntwice() { echo 8; }", SHELL_TEST),
        ("exec true", SHELL_TEST),
        ("alias [=true\ntwice() { echo 1; }", SHELL_TEST),
        // Each command of the tests counts, even if the shell would ignore its failure.
        ("twice() { echo 1; }", "set +e\n[ \"$(twice 4)\" = 8 ]\ntrue\n"),
        ("twice() { echo 1; }", "[ \"$(twice 4)\" = 8 ] && echo good\ntrue\n"),
        // A shift is not a here-document, and commands after a here-document count.
        ("twice() { echo 1; }", "echo $((1 << 2))\n[ \"$(twice 4)\" = 8 ] && echo good\ntrue\n"),
        ("twice() { echo 1; }", "cat <<END\na\nEND\n[ \"$(twice 4)\" = 8 ] && echo good\ntrue\n"),
        // The program cannot change the definitions that the tests see.
        (
            "test() { return 0; }\ntwice() { echo 1; }\necho 'twice() { echo 1; }' >main.sh",
            "test \"$(twice 4)\" = 8",
        ),
        // No process of the program runs during the tests.
        ("(sleep 2; touch late) & \ntwice() { echo 8; }", "rm -f late\nsleep 3\n[ -e late ]\n"),
        (
            "setsid sh -c 'touch begun; sleep 2; touch late' </dev/null >/dev/null 2>&1 &\n\
             until [ -e begun ]; do sleep 0.1; done\ntwice() { echo 8; }",
            "rm -f late\nsleep 3\n[ -e late ]\n",
        ),
        // The shell of the tests does not read the program.
        (
            "[ -z \"${__line:-}\" ] || exit 0\ntwice() { echo 1; }",
            ". ./main.sh\n[ \"$(twice 4)\" = 8 ]\n",
        ),
    ];
    check(&wrong, &run_all("sh", &wrong, SHORT_TIMEOUT).await, false);
}

#[tokio::test]
async fn shell_tests_can_use_functions_and_variables() {
    let right = [
        ("twice() { echo $(($1 * 2)); }", SHELL_TEST),
        (
            "text=\"it's\nfine\"; count=3\ntwice() { echo $(($1 * 2)); }",
            "[ $count = 3 ]\nfor n in 1 2; do\n  [ \"$(twice $n)\" = $((2 * n)) ]\ndone\n\
             printf %s \"$text\" | grep -q fine\ncat <<END | grep -q a\na\nEND\n",
        ),
        (
            "n=3\ntwice() { echo $(($1 * 2)); }",
            "cd /workspace && . ./main.sh\n[ \"$(twice $n)\" = 6 ]\n",
        ),
        // A variable that is longer than an argument of a process can be.
        ("big=$(printf %0200000d 1)", "[ ${#big} = 200000 ]\n"),
    ];
    check(&right, &run_all("sh", &right, MAX_TIMEOUT).await, true);
}
