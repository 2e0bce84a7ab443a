"""`RemoteGraph`, which uses a graph of a server like a local one."""

from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from support import URL, Case


class Remote(Case):
    async def asyncSetUp(self):
        await super().asyncSetUp()
        self.config = {"configurable": {"thread_id": await self.thread()}}

    def graph(self, name):
        return RemoteGraph(name, url=URL)

    async def test_a_remote_graph_runs(self):
        values = await self.graph("tiny").ainvoke({"value": "x"}, self.config)
        self.assertEqual(values, {"value": "xab", "log": ["a", "b"], "count": 2})

    async def test_a_remote_graph_streams(self):
        stream = self.graph("tiny").astream({"value": "x"}, self.config, stream_mode="updates")
        self.assertEqual([list(it)[0] async for it in stream], ["a", "b"])

    async def test_a_remote_graph_streams_its_subgraphs(self):
        stream = self.graph("parent").astream(
            {"log": []}, self.config, stream_mode="updates", subgraphs=True
        )
        nodes = [(len(namespace), list(update)[0]) async for namespace, update in stream]
        self.assertEqual(nodes, [(0, "p0"), (1, "c1"), (1, "c2"), (0, "child"), (0, "p9")])

    async def test_a_remote_graph_is_interrupted_and_resumed(self):
        graph = self.graph("approval")
        values = await graph.ainvoke({"topic": "tea"}, self.config)
        self.assertEqual(values["__interrupt__"][0]["value"]["question"], "approve?")
        state = await graph.aget_state(self.config)
        self.assertEqual(state.next, ("review",))
        values = await graph.ainvoke(Command(resume="yes"), self.config)
        self.assertEqual(values["decision"], "yes")

    async def test_the_state_of_a_remote_graph_is_edited(self):
        graph = self.graph("tiny")
        await graph.ainvoke({"value": "x"}, self.config)
        await graph.aupdate_state(self.config, {"value": "q"}, as_node="a")
        state = await graph.aget_state(self.config)
        self.assertEqual((state.values["value"], state.next), ("q", ("b",)))
        history = [it async for it in graph.aget_state_history(self.config)]
        self.assertEqual(len(history), 5)

    async def test_a_remote_graph_is_drawn(self):
        graph = await self.graph("parent").aget_graph(xray=True)
        self.assertIn("child:c1", graph.nodes)
