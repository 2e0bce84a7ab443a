"""The functional API: a function as a graph, with concurrent tasks, retries and an approval."""

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.types import Command, RetryPolicy, interrupt


@task(retry_policy=RetryPolicy(max_attempts=3))
def write(section: str) -> str:
    return f"about {section}"


@entrypoint(checkpointer=InMemorySaver())
def essay(topic: str, *, previous: str | None = None):
    sections = [write("why"), write("how")]
    why, how = [it.result() for it in sections]
    text = f"{topic}: {why}, {how}"
    approved = interrupt(f"publish `{text}`?")
    value = text if approved else previous
    return entrypoint.final(value=value, save=text)


config = {"configurable": {"thread_id": "t"}}
for event in essay.stream("rust", config):
    if "__interrupt__" in event:
        print(event["__interrupt__"][0].value)
print(essay.invoke(Command(resume=True), config))
print("saved:", essay.get_state(config).values)
