"""Interrupts, breakpoints, edits and time travel."""

from support import Case, data, names


class Interrupts(Case):
    async def interrupted(self):
        """Returns a thread that waits for a decision."""
        thread = await self.thread()
        await self.runs.wait(thread, "approval", input={"topic": "tea"})
        return thread

    async def test_an_interrupt_ends_the_stream_with_its_question(self):
        thread = await self.thread()
        events = await self.stream(
            thread, "approval", input={"topic": "tea"}, stream_mode=["values", "updates"]
        )
        self.assertEqual(names(events)[-2:], ["updates", "values"])
        question = {"question": "approve?", "draft": "draft about tea"}
        self.assertEqual(events[-2].data["__interrupt__"][0]["value"], question)
        self.assertEqual(events[-1].data["__interrupt__"][0]["value"], question)
        run = (await self.runs.list(thread))[0]
        self.assertEqual(run["status"], "success")

    async def test_an_interrupted_thread_shows_its_interrupts(self):
        thread = await self.interrupted()
        stored = await self.threads.get(thread)
        self.assertEqual(stored["status"], "interrupted")
        [(task, [interrupt])] = stored["interrupts"].items()
        state = await self.threads.get_state(thread)
        self.assertEqual(state["next"], ["review"])
        self.assertEqual(state["tasks"][0]["id"], task)
        self.assertEqual(state["tasks"][0]["interrupts"][0]["id"], interrupt["id"])
        self.assertEqual(state["interrupts"][0]["id"], interrupt["id"])

    async def test_a_value_resumes_the_run(self):
        thread = await self.interrupted()
        values = await self.runs.wait(thread, "approval", command={"resume": {"ok": True}})
        self.assertEqual(values["decision"], {"ok": True})
        self.assertEqual(values["log"], ["draft", "review", "publish"])
        stored = await self.threads.get(thread)
        self.assertEqual((stored["status"], stored["interrupts"]), ("idle", {}))

    async def test_an_answer_by_id_resumes_the_run(self):
        thread = await self.interrupted()
        interrupt = (await self.threads.get_state(thread))["interrupts"][0]["id"]
        values = await self.runs.wait(thread, "approval", command={"resume": {interrupt: "yes"}})
        self.assertEqual(values["decision"], "yes")

    async def test_a_command_updates_the_state_while_it_resumes(self):
        thread = await self.interrupted()
        command = {"resume": "yes", "update": {"topic": "coffee"}}
        values = await self.runs.wait(thread, "approval", command=command)
        self.assertEqual((values["topic"], values["decision"]), ("coffee", "yes"))

    async def test_a_command_runs_another_node(self):
        thread = await self.thread()
        await self.runs.wait(thread, "tiny", input={"value": "x"})
        values = await self.runs.wait(thread, "tiny", command={"goto": "b"})
        self.assertEqual(values["value"], "xabb")

    async def test_new_input_replaces_a_pending_interrupt(self):
        thread = await self.interrupted()
        values = await self.runs.wait(thread, "approval", input={"topic": "coffee"})
        self.assertEqual(values["draft"], "draft about coffee")

    async def test_a_breakpoint_before_a_node_stops_the_run(self):
        thread = await self.thread()
        events = await self.stream(
            thread, "tiny", input={"value": "x"}, stream_mode="updates", interrupt_before=["b"]
        )
        self.assertEqual(data(events, "updates")[-1], {"__interrupt__": []})
        self.assertEqual((await self.threads.get_state(thread))["next"], ["b"])
        self.assertEqual((await self.runs.wait(thread, "tiny"))["value"], "xab")

    async def test_a_breakpoint_after_every_node_stops_the_run(self):
        thread = await self.thread()
        values = await self.runs.wait(thread, "tiny", input={"value": "x"}, interrupt_after="*")
        self.assertEqual(values["value"], "xa")

    async def test_an_edit_decides_what_runs_next(self):
        thread = await self.thread()
        await self.runs.wait(thread, "tiny", input={"value": "x"})
        await self.threads.update_state(thread, {"value": "q"}, as_node="a")
        self.assertEqual((await self.threads.get_state(thread))["next"], ["b"])
        self.assertEqual((await self.threads.get(thread))["status"], "interrupted")
        self.assertEqual((await self.runs.wait(thread, "tiny"))["value"], "qb")

    async def test_an_edit_of_an_old_checkpoint_forks_the_thread(self):
        thread = await self.thread()
        await self.runs.wait(thread, "tiny", input={"value": "x"})
        history = await self.threads.get_history(thread)
        old = next(it for it in history if it["next"] == ["b"])
        fork = await self.threads.update_state(
            thread, {"value": "fork"}, checkpoint=old["checkpoint"]
        )
        state = await self.threads.get_state(thread, checkpoint=fork["checkpoint"])
        self.assertEqual(state["parent_checkpoint"], old["checkpoint"])
        self.assertEqual((await self.runs.wait(thread, "tiny"))["value"], "forkb")

    async def test_a_run_starts_from_an_old_checkpoint(self):
        thread = await self.thread()
        await self.runs.wait(thread, "tiny", input={"value": "x"})
        history = await self.threads.get_history(thread)
        old = next(it for it in history if it["next"] == ["b"])
        values = await self.runs.wait(thread, "tiny", checkpoint=old["checkpoint"])
        self.assertEqual(values, {"value": "xab", "log": ["a", "b"], "count": 2})
        values = await self.runs.wait(
            thread, "tiny", input={"value": "n"}, checkpoint_id=old["checkpoint"]["checkpoint_id"]
        )
        self.assertEqual(values["log"], ["a", "a", "b"])

    async def test_an_edit_of_an_unknown_node_fails(self):
        thread = await self.interrupted()
        with self.fails_with(400):
            await self.threads.update_state(thread, {"topic": "x"}, as_node="nope")

    async def test_a_thread_without_a_graph_cannot_be_edited(self):
        with self.fails_with(400):
            await self.threads.update_state(await self.thread(), {"value": "x"})
