/** A proxy in front of a server, which can be disconnected. */

import net from "node:net";

export async function openProxy(target) {
  const open = new Set();
  let isDisconnected = false;
  const proxy = net.createServer((near) => {
    if (isDisconnected) return near.destroy();
    const far = net.connect(Number(target.port), target.hostname);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ]) {
      open.add(one);
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        open.delete(one);
        // The other side still receives the data that was sent before.
        other.destroySoon();
      });
    }
  });
  const closeAll = () => open.forEach((it) => it.destroy());
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${proxy.address().port}`,
    disconnect() {
      isDisconnected = true;
      closeAll();
    },
    reconnect() {
      isDisconnected = false;
    },
    async close() {
      closeAll();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}
