"""The stored threads and the agents of ../../src/storage.rs and ../../src/agents.rs in LangGraph and LangChain.

A request is a line of JSON on standard input, the answer is a line on standard output.
Requests for "storage" and "storage-size" go to storage.py, those for "agent" to agents.py.
"""

import json
import sys
from importlib.metadata import version

try:
    import storage
except ImportError:  # The savers are separate packages.
    storage = None
try:
    import agents
except ImportError:  # LangChain is a separate package.
    agents = None

def answer(value):
    print(json.dumps(value), flush=True)


def serve(request):
    match request["workload"]:
        case "storage":
            return storage.run(request)
        case "storage-size":
            return storage.size(request)
        case "agent":
            return agents.run(request)


def main():
    about = {"langgraph": version("langgraph"), "python": sys.version.split()[0]}
    answer(about | {"savers": storage and storage.about(), "langchain": agents and version("langchain")})
    for line in sys.stdin:
        answer(serve(json.loads(line)))


if __name__ == "__main__":
    main()
