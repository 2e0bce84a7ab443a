"""Code that the programs that run Python tests and shell tests share. It is prepended to their own code."""
# The exit code for a program that ended before its tests.
CUT_SHORT = 125


def hide_memory():
    """Makes the memory and the descriptors of this process inaccessible to other processes of the same user."""
    # If it fails, the sandbox itself still denies writing to the memory of another process.
    set_option(4, 0)  # PR_SET_DUMPABLE


def adopt_orphans():
    """Makes this process the parent of its descendants whose parents end."""
    set_option(36, 1)  # PR_SET_CHILD_SUBREAPER


def set_option(option, value):
    try:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (ImportError, OSError):
        pass


