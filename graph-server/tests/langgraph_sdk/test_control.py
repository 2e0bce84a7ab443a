"""Several runs on one thread, and cancellation."""

from support import SLOW, Case, new_id

SHORT = {"steps": 1, "delay": 0}


class Control(Case):
    async def busy(self):
        """Returns a thread and a run that executes on it."""
        thread = await self.thread()
        run = await self.runs.create(thread, "slow", input=SLOW)
        await self.started(thread, run["run_id"])
        return thread, run["run_id"]

    async def test_a_thread_with_a_run_is_busy(self):
        thread, run = await self.busy()
        self.assertEqual((await self.threads.get(thread))["status"], "busy")
        await self.runs.cancel(thread, run, wait=True)

    async def test_reject_refuses_a_second_run(self):
        thread, run = await self.busy()
        with self.fails_with(409):
            await self.runs.create(thread, "slow", input=SHORT, multitask_strategy="reject")
        await self.runs.cancel(thread, run, wait=True)

    async def test_enqueued_runs_execute_in_order(self):
        thread = await self.thread()
        runs = []
        for value in "abc":
            runs.append(await self.runs.create(thread, "tiny", input={"value": value}))
        values = await self.runs.join(thread, runs[-1]["run_id"])
        self.assertEqual((values["value"], values["count"]), ("cab", 6))

    async def test_interrupt_cancels_the_active_run_and_keeps_its_progress(self):
        thread, first = await self.busy()
        await self.ticked(thread)
        second = await self.runs.create(
            thread, "slow", input={"steps": 0, "delay": 0}, multitask_strategy="interrupt"
        )
        values = await self.runs.join(thread, second["run_id"])
        self.assertEqual(await self.status(thread, first), "interrupted")
        self.assertGreater(values["ticks"], 1)

    async def test_rollback_deletes_the_active_run_and_its_progress(self):
        thread, first = await self.busy()
        await self.ticked(thread)
        second = await self.runs.create(
            thread, "slow", input=SHORT, multitask_strategy="rollback"
        )
        values = await self.runs.join(thread, second["run_id"])
        self.assertEqual(values["ticks"], 1)
        with self.fails_with(404):
            await self.runs.get(thread, first)

    async def test_cancel_waits_for_the_end_of_the_run(self):
        thread, run = await self.busy()
        await self.runs.cancel(thread, run, wait=True)
        self.assertEqual(await self.status(thread, run), "interrupted")
        self.assertEqual((await self.threads.get(thread))["status"], "interrupted")
        reason = (await self.runs.get(thread, run))["cancel_reason"]
        self.assertEqual(reason, "a client cancelled the run")

    async def test_a_cancelled_run_can_continue(self):
        thread = await self.thread()
        run = await self.runs.create(thread, "slow", input={"steps": 30, "delay": 0.01})
        await self.ticked(thread)
        await self.runs.cancel(thread, run["run_id"], wait=True)
        values = await self.runs.wait(thread, "slow")
        self.assertEqual(values["ticks"], 30)

    async def test_cancel_with_rollback_deletes_the_run(self):
        thread, run = await self.busy()
        await self.runs.cancel(thread, run, wait=True, action="rollback")
        with self.fails_with(404):
            await self.runs.get(thread, run)
        self.assertEqual(await self.threads.get_history(thread), [])
        self.assertEqual((await self.threads.get(thread))["status"], "idle")

    async def test_a_pending_run_can_be_cancelled(self):
        thread, first = await self.busy()
        second = await self.runs.create(thread, "slow", input=SHORT)
        await self.runs.cancel(thread, second["run_id"], wait=True)
        self.assertEqual(await self.status(thread, second["run_id"]), "interrupted")
        self.assertEqual(await self.status(thread, first), "running")
        await self.runs.cancel(thread, first, wait=True)

    async def test_a_pending_run_can_be_rolled_back(self):
        thread, first = await self.busy()
        second = await self.runs.create(thread, "slow", input=SHORT)
        await self.runs.cancel(thread, second["run_id"], wait=True, action="rollback")
        with self.fails_with(404):
            await self.runs.get(thread, second["run_id"])
        await self.runs.cancel(thread, first, wait=True)

    async def test_a_finished_run_cannot_be_cancelled(self):
        thread = await self.thread()
        run = await self.runs.create(thread, "tiny", input={"value": "x"})
        await self.runs.join(thread, run["run_id"])
        with self.fails_with(404):
            await self.runs.cancel(thread, run["run_id"])
        with self.fails_with(404):
            await self.runs.cancel(thread, new_id())

    async def test_several_runs_are_cancelled_at_once(self):
        thread, first = await self.busy()
        second = await self.runs.create(thread, "slow", input=SHORT)
        ids = [first, second["run_id"]]
        await self.runs.cancel_many(thread_id=thread, run_ids=ids)
        for run in ids:
            await self.runs.join(thread, run)
            self.assertEqual(await self.status(thread, run), "interrupted")

    async def test_deleting_a_thread_ends_its_runs(self):
        thread, _ = await self.busy()
        await self.threads.delete(thread)
        with self.fails_with(404):
            await self.threads.get(thread)
