"""Runs the program, and then serves calls of its tests, which run in another interpreter."""
import io, traceback


class Output(io.TextIOBase):
    """Sends what the program prints during its tests to the interpreter that runs them."""

    def __init__(self, stream):
        self.stream, self.pieces, self.size = stream, [], 0

    def write(self, text):
        self.pieces.append(text)
        self.size += len(text)
        if self.size > 8192:
            self.flush()
        return len(text)

    def flush(self):
        pieces, self.pieces, self.size = self.pieces, [], 0
        if pieces:
            peer.send("print", self.stream, "".join(pieces))


class Program(Peer):
    def before_call(self):
        sys.stdout.flush()
        sys.stderr.flush()

    before_answer = before_call

    def decode_function(self, it):
        # The program uses its own copy of a function of the standard library.
        return getattr(importlib.import_module(it[0]), it[1])

    def trace(self, error):
        frames = traceback.extract_tb(error.__traceback__)
        return "".join(traceback.format_list([it for it in frames if it.filename != "<string>"]))


def run():
    with open("main.py") as file:
        text = file.read()
    linecache.cache["main.py"] = (len(text), None, text.splitlines(True), "main.py")
    try:
        exec(compile(text, "main.py", "exec"), names)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    except BaseException as error:
        traceback.print_exception(error.with_traceback(error.__traceback__.tb_next))
        sys.exit(1)


import linecache

peer = Program(int(sys.argv[1]), int(sys.argv[2]))
sys.argv = ["main.py"]
keep = sys.modules["__main__"]
sys.modules["__main__"] = types.ModuleType("__main__")
names = sys.modules["__main__"].__dict__
names["__file__"] = "main.py"
run()
sys.stdout.flush()
sys.stderr.flush()
sys.stdout, sys.stderr = Output("stdout"), Output("stderr")
builtins.input = lambda prompt="": peer.apply("input", str(prompt))
peer.functions["global"] = lambda name: names[name]
peer.send("ready", sorted(it for it in names if not it.startswith("__")))
while True:
    try:
        peer.handle(peer.receive())
    except Ended:
        # The tests have ended. The program's own handlers must not delay the result.
        os._exit(0)
