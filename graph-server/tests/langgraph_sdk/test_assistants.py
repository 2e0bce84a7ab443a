"""Assistants and the graphs behind them."""

from support import Case, new_id


class Assistants(Case):
    async def test_every_graph_has_a_system_assistant(self):
        [assistant] = await self.assistants.search(
            graph_id="tiny", metadata={"created_by": "system"}
        )
        self.assertEqual(assistant["assistant_id"], "3330969d-1bd6-5dfc-80e9-91e7dbf68c4e")
        self.assertEqual((assistant["name"], assistant["version"]), ("tiny", 1))
        again = await self.assistants.get(assistant["assistant_id"])
        self.assertEqual(again, assistant)
        self.assertEqual(await self.assistants.get("tiny"), assistant)

    async def test_a_graph_is_drawn(self):
        graph = await self.assistants.get_graph("route")
        self.assertEqual(
            [it["id"] for it in graph["nodes"]], ["__start__", "decide", "even", "odd", "__end__"]
        )
        conditional = [it for it in graph["edges"] if it.get("conditional")]
        self.assertEqual({it["target"] for it in conditional}, {"even", "odd"})

    async def test_subgraphs_are_expanded_on_request(self):
        graph = await self.assistants.get_graph("parent", xray=True)
        nodes = {it["id"] for it in graph["nodes"]}
        self.assertLessEqual({"child:c1", "child:c2"}, nodes)
        self.assertNotIn("child", nodes)
        edges = {(it["source"], it["target"]) for it in graph["edges"]}
        self.assertLessEqual({("p0", "child:c1"), ("child:c2", "p9")}, edges)

    async def test_subgraphs_are_listed(self):
        self.assertEqual(list(await self.assistants.get_subgraphs("parent")), ["child"])
        self.assertEqual(await self.assistants.get_subgraphs("tiny"), {})

    async def test_schemas_describe_state_and_context(self):
        schemas = await self.assistants.get_schemas("ctx")
        self.assertEqual(schemas["graph_id"], "ctx")
        self.assertEqual(set(schemas["state_schema"]["properties"]), {"name", "out", "user"})
        self.assertEqual(set(schemas["context_schema"]["properties"]), {"greeting"})

    async def test_the_settings_of_an_assistant_reach_its_runs(self):
        assistant = await self.assistants.create("ctx", context={"greeting": "hey"})
        values = await self.runs.wait(None, assistant["assistant_id"], input={"name": "ada"})
        self.assertEqual(values["out"], "hey ada")
        values = await self.runs.wait(
            None, assistant["assistant_id"], input={"name": "ada"}, context={"greeting": "yo"}
        )
        self.assertEqual(values["out"], "yo ada")

    async def test_an_existing_assistant_is_a_conflict(self):
        assistant = new_id()
        await self.assistants.create("tiny", assistant_id=assistant)
        with self.fails_with(409):
            await self.assistants.create("tiny", assistant_id=assistant)
        again = await self.assistants.create("tiny", assistant_id=assistant, if_exists="do_nothing")
        self.assertEqual(again["assistant_id"], assistant)

    async def test_an_assistant_needs_a_known_graph(self):
        with self.fails_with(404):
            await self.assistants.create("nope")

    async def test_updates_create_versions(self):
        assistant = (await self.assistants.create("ctx", context={"greeting": "one"}))["assistant_id"]
        updated = await self.assistants.update(assistant, context={"greeting": "two"}, name="second")
        self.assertEqual((updated["version"], updated["name"]), (2, "second"))
        versions = await self.assistants.get_versions(assistant)
        self.assertEqual([it["version"] for it in versions], [2, 1])
        restored = await self.assistants.set_latest(assistant, 1)
        self.assertEqual((restored["version"], restored["context"]), (1, {"greeting": "one"}))
        values = await self.runs.wait(None, assistant, input={"name": "ada"})
        self.assertEqual(values["out"], "one ada")
        third = await self.assistants.update(assistant, metadata={"k": 1})
        self.assertEqual(third["version"], 3)
        with self.fails_with(404):
            await self.assistants.set_latest(assistant, 99)

    async def test_assistants_are_found_and_counted(self):
        mark = new_id()
        for name in ["Alpha", "Beta"]:
            await self.assistants.create("tiny", name=name, metadata={"mark": mark})
        options = {"metadata": {"mark": mark}, "sort_by": "name", "sort_order": "asc"}
        found = await self.assistants.search(**options)
        self.assertEqual([it["name"] for it in found], ["Alpha", "Beta"])
        found = await self.assistants.search(**options, name="bet", select=["name"])
        self.assertEqual(found, [{"name": "Beta"}])
        page = await self.assistants.search(**options, limit=1, response_format="object")
        self.assertEqual((len(page["assistants"]), page["next"]), (1, "1"))
        self.assertEqual(await self.assistants.count(metadata={"mark": mark}), 2)

    async def test_a_deleted_assistant_is_gone(self):
        assistant = (await self.assistants.create("tiny"))["assistant_id"]
        await self.assistants.delete(assistant)
        with self.fails_with(404):
            await self.assistants.get(assistant)
