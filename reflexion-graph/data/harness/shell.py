"""Runs the tests of a shell program. The tests run in their own shell, which the program cannot change.

The program runs once. The tests then see copies of its variables, and each call of one of its functions runs in a new
shell, which reads the program again. The exit code is the verdict: 0 if each command of the tests succeeded.
"""
import os, re, shlex, shutil, signal, subprocess, sys, tempfile, time

BUILTINS = """. : [ alias bg break cd command continue echo eval exec exit export false fg getopts hash jobs kill local
              printf pwd read readonly return set shift test times trap true type ulimit umask unalias unset wait
              if then else elif fi for while until do done case esac in
              builtin chdir declare enable let mapfile readarray select shopt source time typeset""".split()
OWN_VARIABLES = """IFS PATH HOME PWD OLDPWD PPID OPTIND OPTARG LINENO ENV PS1 PS2 PS4 _ __line
                   CDPATH EUID GLOBIGNORE GROUPS LANG LANGUAGE SHELLOPTS UID""".split()
OWN_PREFIXES = ("BASH", "LC_", "LD_", "PYTHON")
# A command that reads the program. It is removed from the tests, which already have the functions and variables.
READS_PROGRAM = re.compile(r"""(^|[;&|({\s])(?:\.|source)\s+["']?(?:[^\s;&|"']*/)?main\.sh["']?(?=$|[\s;&|)}])""", re.MULTILINE)


def run_program():
    """Runs the program and returns the variables that it has set."""
    with tempfile.TemporaryFile() as listing:
        copy = os.dup2(listing.fileno(), 9)
        script = f". ./main.sh\nset >&{copy}"
        args = ["/bin/sh", "-eu", "-c", script]
        process = subprocess.Popen(args, stdin=subprocess.DEVNULL, pass_fds=[copy], start_new_session=True)
        code = process.wait()
        # Background processes of the program must not run during the tests.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        kill_children()
        os.close(copy)
        listing.seek(0)
        text = listing.read().decode(errors="replace")
    if code:
        sys.exit(code if code > 0 else 128 - code)
    if not text:
        sys.exit(CUT_SHORT)
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    pairs = [it.partition("=")[::2] for it in words if re.match(r"[A-Za-z_]\w*=", it)]
    return [it for it in pairs if it[0] not in OWN_VARIABLES and not it[0].startswith(OWN_PREFIXES)]


def kill_children():
    """Kills all child processes. Processes whose parents have ended are children too, see `adopt_orphans`."""
    # The number of attempts is limited, because child processes cannot be found if `/proc` is not mounted.
    for _ in range(1000):
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    parent = file.read().rpartition(")")[2].split()[1]
                if int(parent) == os.getpid():
                    os.kill(int(pid), signal.SIGKILL)
            except (OSError, ValueError, IndexError):
                pass  # The process has ended.
        time.sleep(0.01)


def functions(tests):
    """Returns the names of the program's functions."""
    with open("main.sh") as file:
        found = re.findall(r"(?:^|[;{(&|])\s*(?:function\s+)?([A-Za-z_]\w*)\s*\(\s*\)", file.read(), re.MULTILINE)
    for name in sorted(set(found)):
        if name not in BUILTINS and not shutil.which(name):
            yield name
        elif re.search(rf"(?<!\w){re.escape(name)}(?!\w)", tests):
            sys.exit(f"the program redefines the command `{name}`, which its tests use; rename the function")


def is_valid(text):
    """Returns whether a shell can parse the text."""
    return subprocess.run(["/bin/sh", "-n"], input=os.fsencode(text), capture_output=True).returncode == 0


def commands(tests):
    """Splits the tests into complete commands of one or more lines. Yields each with the number of its last line."""
    piece = []
    for number, line in enumerate(tests.split("\n"), 1):
        piece.append(line)
        text = "\n".join(piece)
        backslashes = len(line) - len(line.rstrip("\\"))
        # A shell also accepts a here-document without an end. Only then does it accept a parenthesis on the next line.
        if backslashes % 2 == 0 and is_valid(text) and not is_valid(f"{text}\n)\n"):
            yield number, text
            piece = []
    if piece:
        yield number, "\n".join(piece)


def main():
    hide_memory()
    adopt_orphans()
    tests = READS_PROGRAM.sub(r"\1:", sys.stdin.read())
    # The program can change files, so they are read before it runs.
    pieces, names = list(commands(tests)), list(functions(tests))
    script = ["exec 9<&-", "trap '[ $? = 0 ] || echo \"tests.sh: line $__line: failed\" >&2' EXIT"]
    script += [f"{name}={shlex.quote(value)}" for name, value in run_program()]
    call = "/bin/sh -eu -c '. ./main.sh >/dev/null 2>&1 </dev/null\n\"$@\"' main.sh"
    script += [f'{name}() {{ {call} {name} "$@"; }}' for name in names]
    for number, command in pieces:
        # The shell ignores some failures, for example a failure of `a` in `a && b`.
        script += [f"__line={number}", command, "case $? in 0) ;; *) exit 1 ;; esac"]
    # The script can be too long for an argument. The shell reads all of it first, so the program cannot change it.
    with tempfile.TemporaryFile() as file:
        file.write(os.fsencode("\n".join(script)))
        file.seek(0)
        os.dup2(file.fileno(), 9)
        args = ["/bin/sh", "-eu", "-c", 'eval "$(cat <&9)"']
        ended = subprocess.run(args, stdin=subprocess.DEVNULL, pass_fds=[9])
    sys.exit(ended.returncode if ended.returncode >= 0 else 1)


main()
