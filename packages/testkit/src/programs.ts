import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";

/** Whether something on the loopback address accepts connections on this port. */
export async function acceptsConnections(port: number): Promise<boolean> {
  const socket = connect({ host: "127.0.0.1", port });
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** Kills a program that a test started; resolves when it has ended. */
export async function killProgram(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill("SIGKILL");
  await exit;
}
