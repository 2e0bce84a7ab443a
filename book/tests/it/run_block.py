"""Runs or compiles a program from standard input that may contain `await` outside functions."""
import ast, asyncio, inspect, sys

code = compile(sys.stdin.read(), "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
if sys.argv[1] == "run":
    result = eval(code, globals())
    if inspect.iscoroutine(result):
        asyncio.run(result)
