"""Runs the tests of a program. The program runs in another interpreter, which cannot change this one.

The exit code is the verdict: 0 if all tests passed. The tests are read from standard input before the program starts.
"""
sys.path = [it for it in sys.path if it]
import datetime, decimal, fractions, linecache, select, signal, traceback

# Objects that give access to the tests themselves.
FRAMES = (types.FrameType, types.CodeType, types.TracebackType)
GENERATORS = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
GENERATOR_METHODS = ("send", "throw", "close", "asend", "athrow", "aclose")
BASE_TYPES = (*NUMBERS, str, bytes, list, tuple, dict, set, frozenset)
# The difference between two of these values shows whether they are equal, so the program must not compute it.
MEASURES = (*NUMBERS, decimal.Decimal, fractions.Fraction, set, frozenset, datetime.date, datetime.timedelta)
# Operators that turn an object into a plain number.
MEASURING = ("abs", "neg", "pos", "invert", "int", "float", "index", "bool", "len")


class Tests(Peer):
    def __init__(self, source):
        (program_reader, writer), (reader, program_writer) = os.pipe(), os.pipe()
        for descriptor in (program_reader, program_writer):
            os.set_inheritable(descriptor, True)
        null = os.open("/dev/null", os.O_RDONLY)
        flags = ["-B", "-s", "-X", "utf8"]
        args = [sys.executable, *flags, "-c", source, str(program_reader), str(program_writer)]
        actions = [(os.POSIX_SPAWN_DUP2, null, 0)]
        self.process = os.posix_spawn(sys.executable, args, os.environ, file_actions=actions)
        os.close(program_reader)
        os.close(program_writer)
        super().__init__(reader, writer)
        self.poll = select.poll()
        self.poll.register(reader, select.POLLIN)
        try:
            self.poll.register(os.pidfd_open(self.process), select.POLLIN)
        except OSError:
            pass  # The end of the program is then noticed only if none of its children has the pipe open.
        self.functions["input"] = lambda prompt: input(prompt)
        self.swallowed = None
        # Values of the program's objects whose class extends a number type, by reference. None for all other objects.
        self.number_values = {}
        # References to results of arithmetic between an object of the program and a plain value.
        self.computed = set()

    def wait(self):
        if all(descriptor != self.reader for descriptor, _ in self.poll.poll()):
            raise Ended

    def receive(self):
        try:
            return super().receive()
        except Ended:
            self.end_like_program()

    def send(self, *message):
        try:
            super().send(*message)
        except BrokenPipeError:
            self.end_like_program()

    def end_like_program(self):
        """Ends this process in the way the program has ended. The tests could ignore an error that is raised instead."""
        sys.stdout.flush()
        os.close(self.writer)
        status = os.waitpid(self.process, 0)[1]
        if os.WIFSIGNALED(status):
            if os.WTERMSIG(status) != signal.SIGKILL:
                signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
            os.kill(os.getpid(), os.WTERMSIG(status))
        os._exit(os.WEXITSTATUS(status) or CUT_SHORT)

    def handle(self, message):
        if message[0] == "print":
            getattr(sys, {"stdout": "stdout", "stderr": "stderr"}[message[1]]).write(message[2])
        elif message[0] == "apply" and (message[1] == "input" or is_own_object(message[2][:1])):
            super().handle(message)
        else:
            raise ValueError(f"the program sent an unknown message {message[0]!r}")

    def check(self, function, args):
        """Refuses access of the program to internals of the tests."""
        if function == "input":
            return
        target, kind = args[0], type(args[0])
        is_mock = any(it.__name__ == "NonCallableMock" for it in kind.__mro__)
        is_internal = isinstance(target, types.ModuleType) or is_of_test_framework(kind) and not is_mock
        if is_internal and function not in ("eq", "ne", "hash", "str", "repr"):
            raise AttributeError(f"the program cannot use an object of type {kind.__name__} of its tests")
        if function not in ("getattr", "setattr", "delattr"):
            return
        name = args[1]
        if type(name) is not str or name.startswith("_"):
            raise AttributeError(name)
        if isinstance(target, (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type)):
            raise AttributeError(name)
        if isinstance(target, GENERATORS) and name not in GENERATOR_METHODS:
            raise AttributeError(name)
        if is_mock:
            # Calls of a mock and its children are recorded. The records, assertions and settings belong to the tests.
            is_plain = function == "setattr" and type(args[2]) in (*PLAIN, int)
            is_setting = any(hasattr(it, name) for it in kind.__mro__[1:])
            if is_setting or function != "getattr" and not is_plain:
                raise AttributeError(name)
        elif function != "getattr" and callable(getattr(kind, name, None)):
            raise AttributeError(f"the program cannot replace the method {name} of an object of its tests")

    def encode(self, value):
        if isinstance(value, (*FRAMES, Peer, Names)):
            raise TypeError(f"an object of type {type(value).__name__} cannot be passed to the program")
        return super().encode(value)

    def encode_error(self, error):
        # If an assertion fails in a function that the tests passed to the program, the program cannot hide the failure.
        if isinstance(error, AssertionError) and self.swallowed is None and "_trace" not in error.__dict__:
            self.swallowed = error
        return super().encode_error(error)

    def compare(self, function, left, right):
        """Compares an object of the program. Only a comparison of two such objects is left to the program."""
        if isinstance(right, Remote):
            return self.apply(function, left, right)
        value = self.base_value(left)
        if value is None:
            return False if function == "eq" else NotImplemented
        return getattr(operator, function)(value, right)

    def base_value(self, remote):
        """Returns the value of an object whose class extends a built-in type. The value of a number never changes."""
        if self.number_values.get(remote._ref) is not None:
            return self.number_values[remote._ref]
        value = self.apply("base_value", remote)
        if type(value) not in BASE_TYPES:
            value = None
        number = self.number_values.setdefault(remote._ref, value if type(value) in NUMBERS else None)
        return number if type(value) in NUMBERS else value

    def operate(self, function, *args):
        """Applies an operator to an object of the program.

        The program decides about operators of its classes, but it must not decide that the difference between its result
        and an expected value is zero. An object that stands for a number or a set is therefore replaced by that value. The
        result of any other object and a plain number must not be a number, and no number can be computed from it, except
        by its methods.
        """
        if function not in ARITHMETIC and function not in MEASURING:
            return self.apply(function, *args)
        plain = [it for it in args if isinstance(it, MEASURES)]
        if plain or function in MEASURING and function not in ("bool", "len"):
            values = [self.base_value(it) if isinstance(it, Remote) else it for it in args]
            if all(isinstance(it, MEASURES) for it in values):
                return self.functions[function](*values)
        if any(isinstance(it, (set, frozenset)) for it in plain):
            raise TypeError(f"`{function}` cannot combine a set with an object of the program that is not a set")
        is_computed = any(isinstance(it, Remote) and it._ref in self.computed for it in args)
        result = self.apply(function, *args)
        if isinstance(result, Remote):
            if plain or is_computed:
                self.number_values[result._ref] = None
            # Scaling by a number reveals no difference from it, and neither does adding to zero, as `sum` does.
            is_neutral = function in ("mul", "matmul", "truediv", "floordiv") or function == "add" and plain == [0]
            if is_computed or plain and not is_neutral:
                self.computed.add(result._ref)
        elif (plain or is_computed) and not (result and isinstance(result, (list, tuple, dict, str))):
            raise TypeError(f"`{function}` of an object of the program and a plain value returned a plain value")
        return result


class Names(dict):
    """The global names of the tests: their own, and those of the program."""

    def __init__(self, peer, program_names):
        super().__init__(__name__="__main__", __builtins__=builtins)
        self.peer, self.program_names, self.found = peer, program_names, {}

    def __missing__(self, name):
        if name not in self.program_names:
            raise KeyError(name)
        if hasattr(builtins, name):
            sys.exit(f"NameError: the program redefines `{name}`, a built-in name that its tests use; rename it")
        if name not in self.found:
            value = self.peer.apply("global", name)
            # Do not cache plain values, because the program can assign new ones to the name.
            if not isinstance(value, (Remote, RemoteClass)):
                return value
            self.found[name] = value
        return self.found[name]


class Module(types.ModuleType):
    """A module whose names are those of the tests, for test frameworks, or those of the program, for imports.

    Test frameworks look for functions such as `load_tests`, so they must not find names of the program.
    """

    def __init__(self, name, names, listed):
        super().__init__(name)
        self.__dict__.update(_names=names, _listed=listed)

    def __getattr__(self, name):
        if name not in self._listed:
            raise AttributeError(name)
        return self._names[name]

    def __dir__(self):
        return list(self._listed)


def is_own_object(args):
    """Returns whether the first argument of a call is an object that the tests have passed to the program."""
    return bool(args) and isinstance(args[0], dict) and list(args[0]) == ["back"]


def refuse_doctest(*args, **kwargs):
    raise RuntimeError("doctest cannot find the functions of a program that runs in another interpreter; call them in the tests")


def report(error):
    """Prints an error of the tests, with the lines of the tests and of the program that led to it."""
    frames = [it for it in traceback.extract_tb(error.__traceback__) if it.filename != "<string>"]
    trace = "".join(traceback.format_list(frames)) + error.__dict__.get("_trace", "")
    last = "".join(traceback.format_exception_only(type(error), error)).replace("__main__.", "")
    sys.stdout.flush()
    sys.stderr.write(f"Traceback (most recent call last):\n{trace}{last}")


def main():
    hide_memory()
    text = sys.stdin.read()
    # Read the program before it runs, because it can change its own file.
    program = compile_program()
    peer = Tests(sys.argv[1])
    sys.argv = ["tests.py"]
    _, program_names = peer.receive()
    names = Names(peer, set(program_names))
    sys.modules["__main__"] = Module("__main__", names, names)
    sys.modules["main"] = Module("main", names, program_names)
    if "doctest" in text:
        import doctest

        doctest.testmod = doctest.run_docstring_examples = refuse_doctest
    linecache.cache["tests.py"] = (len(text), None, text.splitlines(True), "tests.py")
    code = 0
    try:
        tests = compile(text, "tests.py", "exec")
        guard(tests, program)
        exec(tests, names)
    except SystemExit as end:
        if "_trace" in end.__dict__:
            sys.stderr.write("the program exited the process during its tests\n")
            code = CUT_SHORT
        elif end.code not in (None, 0):
            code = end.code if isinstance(end.code, int) else 1
            sys.stderr.write("" if isinstance(end.code, int) else f"{end.code}\n")
    except BaseException as error:
        report(error)
        code = 1
    if code == 0 and peer.swallowed is not None:
        report(peer.swallowed)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 255 or (1 if code else 0))


main()
