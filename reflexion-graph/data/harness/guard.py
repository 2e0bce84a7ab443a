"""Refuses operations by which the tests would run code of the program in their own interpreter.

The program can write files and return bytes, which the tests may load. Loading must give values, not run code.
"""
import sysconfig

# Classes whose objects are plain values and whose attributes nobody can change, by module. Loading objects of other
# classes can call any function, and can replace methods of the class.
LOADABLE = {
    "builtins": set("bool bytearray bytes complex dict float frozenset int list object range set slice str tuple".split()),
    "_codecs": {"encode"},
    "collections": {"OrderedDict", "defaultdict", "deque"},
    "datetime": {"date", "datetime", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
}
LOADABLE["builtins"].update(it for it, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception))


def guard(tests, program):
    """Refuses to load code of the program from now on. Both arguments are code objects."""
    system = [os.path.realpath(it) + os.sep for it in [*sys.path, sysconfig.get_path("stdlib")]]

    def is_foreign(path):
        """Returns whether a file belongs neither to Python nor to a package."""
        path = os.path.realpath(path)
        return os.path.isfile(path) and not path.startswith(tuple(system))

    def refuse(what, instead=""):
        raise PermissionError(f"the tests cannot {what}, because it could run code of the program in their interpreter{instead}")

    def check(event, args):
        if event == "pickle.find_class" and args[1] not in LOADABLE.get(args[0], ()):
            refuse(f"unpickle {args[0]}.{args[1]}")
        elif event == "marshal.loads" and not sys._getframe(1).f_code.co_filename.startswith("<frozen "):
            refuse("unmarshal data")
        elif event in ("sqlite3.enable_load_extension", "sqlite3.load_extension"):
            refuse("load an extension of SQLite")
        elif event in ("import", "ctypes.dlopen"):
            path = args[1] if event == "import" else args[0]
            if isinstance(path, str) and is_foreign(path):
                refuse(f"load {path}")
        elif event == "exec" and args[0] is not tests and isinstance(args[0], types.CodeType):
            if args[0] == program:
                refuse("execute the text of the program", "; call its functions instead")
            if is_foreign(args[0].co_filename):
                refuse(f"execute {args[0].co_filename}", "; start a process for it instead")

    sys.addaudithook(check)


def compile_program():
    """Returns the code of the program, or None if it cannot be compiled."""
    try:
        with open("main.py") as file:
            return compile(file.read(), "main.py", "exec")
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


