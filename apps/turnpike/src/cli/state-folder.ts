import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import type { Environment } from "@turnpike/config";
import { findUp } from "@turnpike/devnet/files";

/**
 * Folder for what a command of a buyer keeps: with the state of `turnpike up` for its own gateway, else with the user's state. A
 * relative XDG_STATE_HOME is ignored (XDG Base Directory Specification).
 */
export function buyerStateFolder(command: "mcp" | "pay", buyer: { readonly local: boolean }, env: Environment): string {
  const up = buyer.local ? findUp(process.cwd())?.folder : undefined;
  if (up !== undefined) return join(up, command);
  const state = env.XDG_STATE_HOME ?? "";
  return join(isAbsolute(state) ? state : join(homedir(), ".local", "state"), "turnpike", command);
}
