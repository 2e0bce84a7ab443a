"""Code that both programs that run tests share. It precedes their own code."""
# The exit code for a program that ended before its tests.
CUT_SHORT = 125


def hide_memory():
    """Makes the memory and the descriptors of this process inaccessible to other processes of the same user."""
    PR_SET_DUMPABLE = 4
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (ImportError, OSError):
        pass  # The sandbox itself denies writing to the memory of another process.


