"""Remote calls between two interpreters: the one that runs the tests and the one that runs the program.

Messages are lines of JSON. Plain values are copied. Any other object stays in its interpreter, and the other one gets a
reference to it. Lists, dictionaries and sets that are passed to a call are copied back if the call has changed them.
"""
import builtins, collections, importlib, json, numbers, operator, os, sys, threading, types

PLAIN = (type(None), bool, float, str)
OPERATORS = """lt le gt ge ne add sub mul matmul truediv floordiv mod pow lshift rshift and_ or_ xor neg pos invert abs
               index getitem setitem delitem contains""".split()
ARITHMETIC = "add sub mul matmul truediv floordiv mod pow lshift rshift and_ or_ xor".split()
NUMBERS = (bool, int, float, complex)
# Modules that an interpreter imports at the request of the other interpreter. Importing them has no side effects.
MODULES = set("""abc argparse array ast asyncio base64 binascii bisect calendar cmath collections collections.abc colorsys
                 concurrent.futures contextlib contextvars copy csv dataclasses datetime decimal difflib enum errno fractions
                 functools glob graphlib hashlib heapq hmac html io inspect ipaddress itertools json keyword locale logging
                 math numbers operator os pathlib pickle posixpath pprint queue random re secrets shlex shutil signal
                 statistics string struct subprocess sys tempfile textwrap threading time tokenize traceback types typing
                 unicodedata unittest urllib.parse uuid warnings weakref xml.etree.ElementTree zlib zoneinfo""".split())
# Packages of the standard library whose exceptions keep their class when they are sent to the other process.
EXCEPTION_PACKAGES = set("""argparse asyncio binascii calendar concurrent configparser copy csv _csv dataclasses decimal email
                            enum getopt graphlib http ipaddress json locale lzma pickle _pickle queue _queue re shutil
                            socket sqlite3 ssl statistics struct subprocess tarfile threading tomllib urllib uuid xml
                            zipfile zlib zoneinfo""".split())
STANDARD_MODULES = {*getattr(sys, "stdlib_module_names", ()), *sys.builtin_module_names}
# Test frameworks whose exceptions the program must not raise in the tests, because one of them could skip a test.
TEST_FRAMEWORKS = set("unittest doctest bdb pdb pytest _pytest hypothesis nose twisted testtools".split())


def call(function, *args, **kwargs):
    return function(*args, **kwargs)


def wait_for(awaitable):
    import asyncio

    if not hasattr(wait_for, "loop"):
        wait_for.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(wait_for.loop)
    return wait_for.loop.run_until_complete(awaitable)


def base_value(obj):
    """Returns an object of a class that extends a built-in type as a value of that type, or None."""
    for kind in (int, float, complex, str, bytes, list, tuple, dict, set, frozenset):
        if isinstance(obj, kind):
            return kind(obj)
    for name, kind in (("Integral", int), ("Real", float), ("Complex", complex)):
        if isinstance(obj, getattr(numbers, name)):
            return kind(obj)
    return None


def exit_context(manager, error):
    kind = type(error) if error is not None else None
    return type(manager).__exit__(manager, kind, error, None)


FUNCTIONS = {it: getattr(operator, it) for it in OPERATORS}
FUNCTIONS.update({it.__name__: it for it in (call, wait_for, base_value, exit_context)})
for name in "getattr setattr delattr len iter next reversed bool str repr format hash int float isinstance dir".split():
    FUNCTIONS[name] = getattr(builtins, name)
FUNCTIONS["eq"] = lambda left, right: bool(left == right)
FUNCTIONS["enter"] = lambda manager: type(manager).__enter__(manager)


class Remote:
    """Stands for an object in the other interpreter."""

    __slots__ = ("_peer", "_ref", "__weakref__")

    def __getattr__(self, name):
        found = self._peer.apply("getattr", self, name)
        if name in ("send", "throw", "__next__") and isinstance(found, Remote):
            self._peer.iterating.add(found._ref)
        return found

    def __setattr__(self, name, value):
        self._peer.apply("setattr", self, name, value)

    def __delattr__(self, name):
        self._peer.apply("delattr", self, name)

    def __call__(self, *args, **kwargs):
        return self._peer.apply("call", self, *args, **kwargs)

    def __eq__(self, other):
        return self._peer.compare("eq", self, other)

    def __ne__(self, other):
        return not self._peer.compare("eq", self, other)

    def __hash__(self):
        return self._peer.apply("hash", self)

    def __instancecheck__(self, instance):
        return isinstance(instance, Remote) and self._peer.apply("isinstance", instance, self)

    def __exit__(self, kind, error, trace):
        return self._peer.apply("exit_context", self, error)

    def __await__(self):
        return self._peer.apply("wait_for", self)
        yield


def define_methods():
    def method(function):
        return lambda self, *args: self._peer.operate(function, self, *args)

    def comparison(function):
        return lambda self, other: self._peer.compare(function, self, other)

    def reflected(function):
        return lambda self, other: self._peer.operate(function, other, self)

    for function in "len iter next reversed bool str repr format int float enter dir".split() + OPERATORS:
        if function not in ("lt", "le", "gt", "ge", "ne"):
            setattr(Remote, f"__{function.rstrip('_')}__", method(function))
    for function in ("lt", "le", "gt", "ge"):
        setattr(Remote, f"__{function}__", comparison(function))
    for function in ARITHMETIC:
        setattr(Remote, f"__r{function.rstrip('_')}__", reflected(function))


define_methods()


class RemoteClass(type):
    """The type of classes that stand for a class in the other interpreter. Their instances stand for its instances."""

    def __new__(meta, name, bases, members):
        if "_class_ref" not in members:
            base = next(it.__name__ for it in bases if isinstance(it, RemoteClass))
            raise TypeError(f"class {name} cannot extend {base}, a class of the program, which runs in another process")
        return super().__new__(meta, name, bases, members)

    def __call__(cls, *args, **kwargs):
        return cls._class_peer.apply("call", cls, *args, **kwargs)

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return cls._class_peer.apply("getattr", cls, name)


class RemoteError(Exception):
    """An error in the other interpreter whose class is not a built-in one."""


class Ended(Exception):
    """The other interpreter has ended."""


class Peer:
    """One end of the connection between the interpreters."""

    def __init__(self, reader, writer):
        self.reader, self.writer, self.buffer = reader, writer, bytearray()
        self.own, self.own_refs = {}, {}
        self.remote, self.classes, self.tuples = {}, {}, {}
        self.turn, self.writing = threading.RLock(), threading.Lock()
        self.functions = dict(FUNCTIONS)
        # References to methods that may raise StopIteration.
        self.iterating = set()

    # Messages

    def send(self, *message):
        data = json.dumps(message).encode() + b"\n"
        with self.writing:
            while data:
                data = data[os.write(self.writer, data):]

    def receive(self):
        searched = 0
        while True:
            end = self.buffer.find(b"\n", searched)
            if end >= 0:
                line = bytes(self.buffer[:end])
                del self.buffer[: end + 1]
                return json.loads(line)
            searched = len(self.buffer)
            self.wait()
            piece = os.read(self.reader, 1 << 16)
            if not piece:
                raise Ended
            self.buffer += piece

    def wait(self):
        """Waits until the other interpreter has sent something."""

    def apply(self, function, *args, **kwargs):
        """Calls a function in the other interpreter. Serves calls from that interpreter until the function returns."""
        with self.turn:
            self.before_call()
            names = {name: self.encode(value) for name, value in kwargs.items()}
            self.send("apply", function, [self.encode(it) for it in args], names)
            may_stop = function == "next" or function == "call" and getattr(args[0], "_ref", None) in self.iterating
            args = [*args, *kwargs.values()]
            while True:
                message = self.receive()
                if message[0] == "return":
                    for index, value in message[2]:
                        restore(args[index], self.decode(value))
                    return args[message[3]] if message[3] is not None else self.decode(message[1])
                if message[0] == "raise":
                    error = self.decode_error(message[1])
                    if isinstance(error, StopIteration) and not may_stop:
                        # A `StopIteration` would silently end a loop of the caller, such as a loop over `map`.
                        raise RuntimeError("the called function raised StopIteration")
                    raise error
                self.handle(message)

    def handle(self, message):
        """Executes a call of the other interpreter."""
        function, args, kwargs = message[1:]
        try:
            args = [self.decode(it) for it in args]
            kwargs = {name: self.decode(value) for name, value in kwargs.items()}
            values = [*args, *kwargs.values()]
            before = [self.encode(it) if is_container(it) else None for it in values]
            self.check(function, args)
            result = self.functions[function](*args, **kwargs)
            after = [self.encode(it) if is_container(it) else None for it in values]
            changed = [[i, after[i]] for i in range(len(values)) if before[i] != after[i]]
            same = [i for i in range(len(values)) if values[i] is result and is_container(result)]
            answer = ["return", None if same else self.encode(result), changed, same[0] if same else None]
        except Ended:
            raise
        except BaseException as error:
            answer = ["raise", self.encode_error(error)]
        self.before_answer()
        self.send(*answer)

    def before_call(self):
        pass

    def before_answer(self):
        pass

    def check(self, function, args):
        pass

    def compare(self, function, left, right):
        return self.apply(function, left, right)

    def operate(self, function, *args):
        return self.apply(function, *args)

    # Values

    def encode(self, value):
        kind = type(value)
        if kind in PLAIN:
            return value
        if kind is int:
            return value if value.bit_length() < 10000 else {"int": hex(value)}
        if kind is list:
            return [self.encode(it) for it in value]
        if kind in (tuple, set, frozenset):
            return {kind.__name__: [self.encode(it) for it in value]}
        if kind in (dict, collections.OrderedDict, collections.defaultdict):
            return {"dict": [[self.encode(key), self.encode(it)] for key, it in value.items()]}
        if kind is collections.Counter:
            return {"Counter": [[self.encode(key), it] for key, it in value.items()]}
        if kind is collections.deque:
            return {"deque": [[self.encode(it) for it in value], value.maxlen]}
        if kind in (bytes, bytearray):
            return {kind.__name__: value.hex()}
        if kind is complex:
            return {"complex": [value.real, value.imag]}
        if kind in (range, slice):
            return {kind.__name__: [self.encode(it) for it in (value.start, value.stop, value.step)]}
        if value is Ellipsis or value is NotImplemented:
            return {"constant": repr(value)}
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return {"named": [kind.__name__, list(kind._fields), [self.encode(it) for it in value]]}
        text = STANDARD_TEXTS.get((kind.__module__, kind.__qualname__))
        if text:
            return {"standard": [kind.__module__, kind.__qualname__, text(value)]}
        if isinstance(value, RemoteClass):
            return {"back": value._class_ref}
        if isinstance(value, Remote):
            return {"back": value._ref}
        if isinstance(value, BaseException):
            return {"error": self.encode_error(value)}
        if isinstance(value, types.ModuleType):
            return {"module": [value.__name__, self.reference(value)]}
        if isinstance(value, type):
            return self.encode_class(value)
        if kind is types.BuiltinFunctionType and is_standard_function(value):
            return {"function": [value.__module__, value.__name__, self.reference(value)]}
        if isinstance(value, types.CoroutineType):
            return {"coroutine": self.reference(value)}
        of = self.encode_class(kind) if kind.__module__ == "__main__" else None
        return {"object": [self.reference(value), of]}

    def encode_class(self, kind):
        if getattr(builtins, kind.__name__, None) is kind:
            return {"builtin": kind.__name__}
        if issubclass(kind, BaseException) and kind.__module__ != "__main__":
            bases = [self.encode_class(it) for it in kind.__bases__]
            return {"exception": [self.reference(kind), kind.__module__, kind.__qualname__, bases]}
        if kind.__module__ != "__main__":
            return {"object": [self.reference(kind), None]}
        bases = [self.encode_class(it) for it in kind.__bases__]
        return {"class": [self.reference(kind), kind.__name__, bases]}

    def reference(self, value):
        ref = self.own_refs.get(id(value))
        if ref is None:
            ref = self.own_refs[id(value)] = len(self.own)
            self.own[ref] = value
        return ref

    def decode(self, value):
        if type(value) is list:
            return [self.decode(it) for it in value]
        if type(value) is not dict:
            return value
        [(kind, it)] = value.items()
        return getattr(self, f"decode_{kind}")(it)

    def decode_int(self, it):
        return int(it, 16)

    def decode_tuple(self, it):
        return tuple(self.decode(it))

    def decode_set(self, it):
        return set(self.decode(it))

    def decode_frozenset(self, it):
        return frozenset(self.decode(it))

    def decode_dict(self, it):
        return {self.decode(key): self.decode(value) for key, value in it}

    def decode_Counter(self, it):
        return collections.Counter(self.decode_dict(it))

    def decode_deque(self, it):
        return collections.deque(self.decode(it[0]), it[1])

    def decode_bytes(self, it):
        return bytes.fromhex(it)

    def decode_bytearray(self, it):
        return bytearray.fromhex(it)

    def decode_complex(self, it):
        return complex(*it)

    def decode_range(self, it):
        return range(*it)

    def decode_slice(self, it):
        return slice(*self.decode(it))

    def decode_constant(self, it):
        return {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}[it]

    def decode_named(self, it):
        name, fields, values = it
        key = (name, tuple(fields))
        if key not in self.tuples:
            self.tuples[key] = collections.namedtuple(name, fields, rename=True)
        return self.tuples[key](*self.decode(values))

    def decode_standard(self, it):
        module, name, text = it
        if (module, name) not in STANDARD_TEXTS:
            raise ValueError(f"{module}.{name} is not a plain value")
        kind = importlib.import_module(module)
        for part in name.split("."):
            kind = getattr(kind, part)
        return STANDARD_VALUES.get((module, name), lambda kind, text: kind(text))(kind, text)

    def decode_back(self, it):
        return self.own[it]

    def decode_object(self, it):
        ref, of = it
        if ref not in self.remote:
            kind = Remote if of is None else self.decode(of)
            if not (isinstance(kind, type) and issubclass(kind, Remote)):
                kind = Remote
            found = object.__new__(kind)
            object.__setattr__(found, "_peer", self)
            object.__setattr__(found, "_ref", ref)
            self.remote[ref] = found
        return self.remote[ref]

    def decode_builtin(self, it):
        kind = getattr(builtins, it)
        if not isinstance(kind, type):
            raise ValueError(f"{it} is not a type")
        return kind

    def decode_class(self, it):
        ref, name, bases = it
        if ref not in self.classes:
            bases = [self.decode(it) for it in bases]
            if any(issubclass(it, BaseException) for it in bases if isinstance(it, type)):
                bases = tuple(it for it in bases if isinstance(it, type) and issubclass(it, BaseException))
                members = {"__getattr__": forward_attribute}
            else:
                bases = tuple(it for it in bases if isinstance(it, RemoteClass)) or (Remote,)
                members = {"__slots__": ()}
            members.update(_class_peer=self, _class_ref=ref, __module__="__main__")
            made = self.classes[ref] = RemoteClass(str(name), bases, members)
            if "__slots__" not in members:
                made.__str__ = lambda error: error.__dict__.get("_text", "")
        return self.classes[ref]

    def decode_exception(self, it):
        ref, module, name, bases = it
        package = module.split(".")[0]
        is_allowed = package in EXCEPTION_PACKAGES or package not in {*STANDARD_MODULES, "__main__", "main"}
        source = importlib.import_module(module) if module in MODULES else sys.modules.get(module)
        found = vars(source).get(name) if is_allowed and source is not None else None
        is_known = isinstance(found, type) and issubclass(found, Exception) and found.__module__ == module
        if is_known and not is_of_test_framework(found):
            return found
        return self.decode_class([ref, name, bases])

    def decode_module(self, it):
        name, ref = it
        if name in MODULES:
            return importlib.import_module(name)
        return self.decode_object([ref, None])

    def decode_function(self, it):
        return self.decode_object([it[2], None])

    def decode_coroutine(self, it):
        remote = self.decode_object([it, None])

        async def run():
            return self.apply("wait_for", remote)

        return run()

    # Errors

    def encode_error(self, error):
        kind = type(error)
        if isinstance(kind, RemoteClass) and "_ref" in error.__dict__:
            return {"back": error.__dict__["_ref"]}
        args = [it for it in error.args if isinstance(it, (str, int, float, bool, type(None)))]
        if isinstance(error, OSError) and error.filename is not None:
            args = [error.errno, error.strerror, str(error.filename)]
        return {
            "class": self.encode_class(kind),
            "ref": self.reference(error),
            "args": [self.encode(it) for it in args],
            "text": text_of(error),
            "trace": self.trace(error),
        }

    def trace(self, error):
        return ""

    def decode_error(self, it):
        if "back" in it:
            error = self.own[it["back"]]
            if not isinstance(error, BaseException) or isinstance(error, GeneratorExit) or is_of_test_framework(type(error)):
                return RemoteError(f"raised {type(error).__name__}")
            if isinstance(error, SystemExit):
                error.__dict__.setdefault("_trace", "")
            return error
        kind, args, text = self.decode(it["class"]), self.decode(it["args"]), str(it["text"])
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            kind = RemoteError
        if issubclass(kind, GeneratorExit) or is_of_test_framework(kind):
            kind, args = RemoteError, [text]
        try:
            error = kind.__new__(kind, *args)
        except Exception:
            error = RemoteError(text)
        try:
            if type(error) is kind and not isinstance(kind, RemoteClass):
                error.__init__(*args)
        except Exception:
            error.args = (text,)  # The constructor takes other arguments.
        if isinstance(type(error), RemoteClass):
            error.args = tuple(args)
            error.__dict__.update(_ref=it["ref"], _text=text)
        error.__dict__["_trace"] = str(it["trace"])
        return error


def forward_attribute(error, name):
    if name.startswith("__") or "_ref" not in error.__dict__:
        raise AttributeError(name)
    peer = type(error)._class_peer
    return peer.apply("getattr", peer.decode_object([error.__dict__["_ref"], None]), name)


def is_of_test_framework(kind):
    return any(str(it.__module__).split(".")[0] in TEST_FRAMEWORKS for it in kind.__mro__)


def is_standard_function(value):
    """Returns whether the standard library of the other interpreter contains this function, too."""
    module = sys.modules.get(value.__module__)
    is_standard = module is not None and module.__name__.split(".")[0] in STANDARD_MODULES
    return is_standard and getattr(module, value.__name__, None) is value


def text_of(error):
    try:
        return str(error)
    except Exception:
        return ""


def is_container(value):
    return type(value) in (list, dict, set, bytearray, collections.deque)


def restore(target, value):
    """Replaces the content of a container with the content that the other interpreter sent."""
    if type(target) is not type(value) or not is_container(target):
        raise ValueError("the program changed an argument that cannot be updated")
    target.clear()
    target.extend(value) if hasattr(target, "extend") else target.update(value)


STANDARD_TEXTS = {
    ("decimal", "Decimal"): str,
    ("fractions", "Fraction"): str,
    ("datetime", "date"): lambda it: it.isoformat(),
    ("datetime", "time"): lambda it: it.isoformat(),
    ("datetime", "datetime"): lambda it: it.isoformat(),
    ("datetime", "timedelta"): lambda it: f"{it.days} {it.seconds} {it.microseconds}",
    ("pathlib", "PosixPath"): str,
    ("pathlib", "PurePosixPath"): str,
    ("uuid", "UUID"): str,
}
STANDARD_VALUES = {("datetime", it): lambda kind, text: kind.fromisoformat(text) for it in ("date", "time", "datetime")}
STANDARD_VALUES["datetime", "timedelta"] = lambda kind, text: kind(*map(int, text.split()))
