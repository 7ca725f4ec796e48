import { AppError, isRecord, writeAtomically } from "@turnpike/base";
import { LOCAL_NETWORK, USDC_ADDRESS } from "@turnpike/localnet";
import type { UpPorts } from "../ports.ts";
import type { UpFile } from "../up-file.ts";
import { evmUrl } from "./addresses.ts";
import { localGet, untilOk } from "./http-ready.ts";
import type { LocalKeys } from "./keys.ts";

/** Ids of the services that the gateway's list says are served. */
export function servedIds(text: string): readonly string[] {
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch {
    list = undefined;
  }
  if (!Array.isArray(list)) throw new AppError("INTERNAL", { message: "The gateway's /services.json is not a list." });
  return list
    .filter(isRecord)
    .filter((item) => item.serves === true)
    .map((item) => String(item.id));
}

/**
 * Waits until the gateway serves each of these: it is ready when it can sell one, and the others may still be probed. Gives up
 * when time is over, as a service that fails need not stop the others. Rejects when the signal fires.
 */
export async function untilServed(
  gateway: string,
  ids: readonly string[],
  opts: { readonly signal: AbortSignal; readonly timeoutMs: number },
): Promise<void> {
  const late = AbortSignal.timeout(opts.timeoutMs);
  const signal = AbortSignal.any([opts.signal, late]);
  try {
    await Promise.all(ids.map((id) => untilOk(`${gateway}/ready/${id}`, signal)));
  } catch (error) {
    if (opts.signal.aborted || !late.aborted) throw error;
  }
}

/** Puts the file's contents together; asks the gateway what it serves. */
export async function upFileOf(
  ports: UpPorts,
  keys: LocalKeys,
  facts: Pick<UpFile, "dbTokens" | "suppliers" | "applications" | "gatewayAddress"> &
    Pick<UpFile["chain"], "chainId" | "profile" | "faucet">,
): Promise<UpFile> {
  const gateway = `http://127.0.0.1:${ports.gateway}`;
  const listed = await localGet(`${gateway}/services.json`, 60_000);
  if (listed?.status !== 200) {
    throw new AppError("INTERNAL", { message: `${gateway}/services.json did not answer 200.` });
  }
  return {
    gateway,
    relayDomain: "localhost",
    metrics: `http://127.0.0.1:${ports.metrics}`,
    facilitator: `http://127.0.0.1:${ports.facilitator}`,
    settlement: { rpc: evmUrl(ports), network: LOCAL_NETWORK, asset: USDC_ADDRESS, payTo: keys.payTo.address },
    buyer: { address: keys.buyer.address, privateKey: keys.buyer.privateKey },
    services: servedIds(listed.text),
    chain: {
      rpc: `http://127.0.0.1:${ports.chainRpc}`,
      rest: `http://127.0.0.1:${ports.chainRest}`,
      grpc: `127.0.0.1:${ports.metrics}`,
      metrics: `http://127.0.0.1:${ports.chainMetrics}`,
      chainId: facts.chainId,
      profile: facts.profile,
      faucet: facts.faucet,
    },
    suppliers: facts.suppliers,
    applications: facts.applications,
    gatewayAddress: facts.gatewayAddress,
    db: `http://127.0.0.1:${ports.db}`,
    dbTokens: facts.dbTokens,
    search: `http://127.0.0.1:${ports.search}`,
  };
}

/** Writes the file at once and whole, mode 600. */
export async function writeUpFile(file: string, contents: UpFile): Promise<void> {
  await writeAtomically(file, `${JSON.stringify(contents, undefined, 2)}\n`);
}
