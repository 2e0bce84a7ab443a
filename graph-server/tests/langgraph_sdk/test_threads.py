"""Threads: their states, histories and searches."""

from support import Case, new_id


class Threads(Case):
    async def ran(self, **options):
        """Returns a thread on which the graph `tiny` has run."""
        thread = await self.thread(**options)
        await self.runs.wait(thread, "tiny", input={"value": "x"})
        return thread

    async def test_a_new_thread_is_idle_and_empty(self):
        thread = await self.threads.create(metadata={"k": "v"})
        self.assertEqual((thread["status"], thread["values"]), ("idle", None))
        self.assertEqual(thread["metadata"], {"k": "v"})
        state = await self.threads.get_state(thread["thread_id"])
        self.assertEqual((state["values"], state["next"], state["checkpoint"]), ({}, [], None))
        self.assertEqual(await self.threads.get_history(thread["thread_id"]), [])

    async def test_an_existing_thread_is_a_conflict(self):
        thread = new_id()
        await self.threads.create(thread_id=thread)
        with self.fails_with(409):
            await self.threads.create(thread_id=thread)
        again = await self.threads.create(thread_id=thread, if_exists="do_nothing")
        self.assertEqual(again["thread_id"], thread)

    async def test_a_run_stores_the_values_of_its_thread(self):
        thread = await self.threads.get(await self.ran())
        self.assertEqual(thread["values"], {"value": "xab", "log": ["a", "b"], "count": 2})
        self.assertEqual(thread["metadata"]["graph_id"], "tiny")
        self.assertEqual(thread["status"], "idle")

    async def test_metadata_is_merged(self):
        thread = await self.thread(metadata={"a": 1})
        updated = await self.threads.update(thread, metadata={"b": 2})
        self.assertEqual(updated["metadata"], {"a": 1, "b": 2})

    async def test_the_state_names_its_checkpoint(self):
        thread = await self.ran()
        state = await self.threads.get_state(thread)
        self.assertEqual(state["checkpoint"]["thread_id"], thread)
        self.assertEqual(state["metadata"]["step"], 2)
        by_id = await self.threads.get_state(
            thread, checkpoint_id=state["checkpoint"]["checkpoint_id"]
        )
        self.assertEqual(by_id["values"], state["values"])

    async def test_the_history_lists_every_step(self):
        history = await self.threads.get_history(await self.ran())
        self.assertEqual([it["metadata"]["step"] for it in history], [2, 1, 0, -1])
        self.assertEqual([it["next"] for it in history], [[], ["b"], ["a"], ["__start__"]])
        for child, parent in zip(history, history[1:]):
            self.assertEqual(child["parent_checkpoint"], parent["checkpoint"])

    async def test_the_history_can_be_limited(self):
        thread = await self.ran()
        history = await self.threads.get_history(thread)
        self.assertEqual(await self.threads.get_history(thread, limit=2), history[:2])
        before = history[1]["checkpoint"]
        self.assertEqual(await self.threads.get_history(thread, before=before), history[2:])
        config = {"configurable": before}
        self.assertEqual(await self.threads.get_history(thread, before=config), history[2:])
        inputs = await self.threads.get_history(thread, metadata={"source": "input"})
        self.assertEqual(inputs, history[3:])

    async def test_fields_of_states_can_be_selected(self):
        thread = await self.ran()
        history = await self.threads.get_history(thread, limit=1, select=["values", "next"])
        self.assertEqual(set(history[0]), {"values", "next"})

    async def test_the_state_of_a_subgraph_is_visible_while_it_is_pending(self):
        thread = await self.thread()
        await self.runs.wait(thread, "parent", input={"log": []}, interrupt_before=["child"])
        state = await self.threads.get_state(thread, subgraphs=True)
        self.assertEqual(state["next"], ["child"])
        self.assertEqual(state["tasks"][0]["name"], "child")
        self.assertIsNotNone(state["tasks"][0]["state"])

    async def test_unknown_threads_do_not_exist(self):
        thread = new_id()
        for request in [self.threads.get, self.threads.get_state, self.threads.delete, self.runs.list]:
            with self.fails_with(404):
                await request(thread)
        with self.fails_with(422):
            await self.threads.get("no-uuid")

    async def test_a_copy_has_its_own_history(self):
        thread = await self.ran()
        copy = (await self.threads.copy(thread))["thread_id"]
        await self.runs.wait(copy, "tiny", input={"value": "y"})
        self.assertEqual((await self.threads.get_state(copy))["values"]["count"], 4)
        self.assertEqual((await self.threads.get_state(thread))["values"]["count"], 2)

    async def test_threads_are_found_by_metadata_and_status(self):
        mark = new_id()
        thread = await self.ran(metadata={"mark": mark, "deep": {"a": 1, "b": 2}})
        other = await self.thread(metadata={"mark": mark})
        found = await self.threads.search(metadata={"mark": mark})
        self.assertEqual({it["thread_id"] for it in found}, {thread, other})
        found = await self.threads.search(metadata={"mark": mark, "deep": {"a": 1}})
        self.assertEqual([it["thread_id"] for it in found], [thread])
        found = await self.threads.search(metadata={"mark": mark}, values={"value": "xab"})
        self.assertEqual([it["thread_id"] for it in found], [thread])
        self.assertEqual(await self.threads.search(metadata={"mark": mark}, status="error"), [])
        self.assertEqual(await self.threads.count(metadata={"mark": mark}), 2)

    async def test_searches_have_order_and_pages(self):
        mark = new_id()
        threads = [await self.thread(metadata={"mark": mark}) for _ in range(3)]
        options = {"metadata": {"mark": mark}, "sort_by": "created_at", "sort_order": "asc"}
        found = await self.threads.search(**options)
        self.assertEqual([it["thread_id"] for it in found], threads)
        found = await self.threads.search(**options, limit=1, offset=1, select=["thread_id"])
        self.assertEqual(found, [{"thread_id": threads[1]}])

    async def test_values_are_extracted_by_path(self):
        thread = await self.ran()
        paths = {"last": "values.log[-1]", "none": "values.log[9].x"}
        found = await self.threads.search(ids=[thread], extract=paths)
        self.assertEqual(found[0]["extracted"], {"last": "b", "none": None})

    async def test_pruning_keeps_the_latest_checkpoint_or_nothing(self):
        thread = await self.ran()
        pruned = await self.threads.prune([thread], strategy="keep_latest")
        self.assertEqual(pruned["pruned_count"], 1)
        self.assertEqual(len(await self.threads.get_history(thread)), 1)
        await self.threads.prune([thread], strategy="delete")
        with self.fails_with(404):
            await self.threads.get(thread)

    async def test_a_thread_is_created_from_supersteps(self):
        steps = [
            {"updates": [{"values": {"value": "q"}, "as_node": "__input__"}]},
            {"updates": [{"values": {"value": "w"}, "as_node": "a"}]},
        ]
        thread = await self.threads.create(graph_id="tiny", supersteps=steps)
        self.assertEqual(thread["values"]["value"], "w")
        values = await self.runs.wait(thread["thread_id"], "tiny")
        self.assertEqual(values["value"], "wb")
