"""The stored threads of ../../src/storage.rs in LangGraph.

A request is a line of JSON on standard input, the answer is a line on standard output.
"""

import json
import sys

import storage


def answer(value):
    print(json.dumps(value), flush=True)


def serve(request):
    match request["workload"]:
        case "storage":
            return storage.run(request)
        case "storage-size":
            return storage.size(request)


def main():
    answer(storage.about())
    for line in sys.stdin:
        answer(serve(json.loads(line)))


if __name__ == "__main__":
    main()
