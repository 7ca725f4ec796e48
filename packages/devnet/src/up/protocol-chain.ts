import { type Log, systemClock } from "@turnpike/base";
import { CHAIN_PROFILES, type LocalService, type ProfileName, type Visitor } from "@turnpike/chain";
import { ChainClient, type ChainSigner } from "@turnpike/chain-client";
import { consensusKeyOf } from "@turnpike/chain-node";
import { startPortSplitter } from "@turnpike/localnet";
import { application, createMessage, packAny, service, supplier } from "@turnpike/proto";
import { ensureChain } from "../chain/local-chain.ts";
import { namedKey } from "../chain/named-key.ts";
import type { UpPorts } from "../ports.ts";
import type { UpFile } from "../up-file.ts";
import { chainRpcUrl, supplierUrls } from "./addresses.ts";
import type { InnerPorts } from "./configs.ts";
import { CHAIN_ID, economyPlan } from "./economy.ts";
import type { StateLayout } from "./state-layout.ts";
import { neverExits, type Part, type RunningPart } from "./supervisor.ts";

/** The service whose compute units the first start changes, so that there is a history of them. */
const REPRICED_SERVICE = "document-digest";
const REPRICED_UNITS = 120n;
/**
 * Two accounts of the recorded chain whose answers this one is held against: the questions name them. Their keys are public.
 */
const RECORDED_VISITORS: readonly Visitor[] = [
  { publicKey: Buffer.from("AwQS8Y0I5K49fsgwiZwigC2Wt+PvKY2z7RhM7jU7ktLR", "base64") },
  { publicKey: Buffer.from("Ahsru5EL6qztNiJwX5zhsZfgdevrgMQw/vkpSxMsjKOT", "base64"), applicationFor: "anvil" },
];
/** Maximum wait for an answer or a transaction during a start, as for a part to be ready: a busy machine takes half a minute. */
const START_TIMEOUT_MS = 60_000;

/** Makes the protocol's chain at the first start. Gives what `up.json` says of it. */
export async function prepareChain(
  layout: StateLayout,
  options: {
    readonly services: readonly [LocalService, ...LocalService[]];
    readonly ports: UpPorts;
    readonly profile: ProfileName;
  },
): Promise<Pick<UpFile["chain"], "chainId" | "faucet" | "profile">> {
  const { chainFolder, chainKeysFolder } = layout;
  const { services, ports, profile } = options;
  const urls = supplierUrls(ports);
  const genesis = await ensureChain({
    home: chainFolder,
    keysFolder: chainKeysFolder,
    chainId: CHAIN_ID,
    profile: CHAIN_PROFILES[profile],
    genesisTime: new Date(systemClock.nowMs()).toISOString(),
    services,
    visitors: RECORDED_VISITORS,
    supplierUrls: [urls[0], urls[1]],
    economy: economyPlan(ports),
    consensusKey: await consensusKeyOf(chainFolder),
  });
  const { signer, privateKey } = await namedKey(chainKeysFolder, "faucet");
  const faucet = { address: signer.address, privateKey: Buffer.from(privateKey).toString("hex") };
  return { chainId: genesis.chain_id, profile, faucet };
}

function startClient(ports: UpPorts): ChainClient {
  return new ChainClient({ url: chainRpcUrl(ports), timeoutMs: START_TIMEOUT_MS }, { clock: systemClock });
}

async function repriceService(client: ChainClient, owner: ChainSigner): Promise<void> {
  const methods = service.Query.method;
  const history = await client.ask(methods.computeUnitsPerRelayHistory, { serviceId: REPRICED_SERVICE });
  if (history.computeUnitsPerRelayHistory.length > 0) return;
  const { service: found } = await client.ask(methods.service, { id: REPRICED_SERVICE });
  if (found === undefined || found.ownerAddress !== owner.address) return;
  const message = createMessage(service.MsgAddServiceSchema, {
    ownerAddress: owner.address,
    service: { ...found, computeUnitsPerRelay: REPRICED_UNITS },
  });
  await client.send(owner, [packAny(service.MsgAddServiceSchema, message)], { timeoutMs: START_TIMEOUT_MS });
}

/** Does on the running chain, once, what no genesis can: a change of a service's price. */
export function chainSetupPart(layout: StateLayout, ports: UpPorts): Part {
  const start = async (): Promise<RunningPart> => {
    const nothing = (): Promise<void> => Promise.resolve();
    return {
      exited: neverExits,
      ready: async () => {
        await using client = startClient(ports);
        const { signer: owner } = await namedKey(layout.chainKeysFolder, "service-owner");
        await repriceService(client, owner);
      },
      stop: nothing,
      kill: nothing,
    };
  };
  return { name: "chain-setup", start };
}

/** What `up.json` says of the stakes on the running chain: the suppliers that run here, and who pays them. */
export async function stakedFacts(
  layout: StateLayout,
  ports: UpPorts,
): Promise<Pick<UpFile, "suppliers" | "applications" | "gatewayAddress">> {
  const { signer: gatewaySigner } = await namedKey(layout.chainKeysFolder, "gateway-1");
  await using client = startClient(ports);
  const urls = new Set<string>(supplierUrls(ports));
  const { supplier: found } = await client.ask(supplier.Query.method.allSuppliers, {});
  const suppliers = found.flatMap(({ operatorAddress, ownerAddress, services }) => {
    const url = services.flatMap(({ endpoints }) => endpoints).find((endpoint) => urls.has(endpoint.url))?.url;
    if (url === undefined) return [];
    const ids = services.map(({ serviceId }) => serviceId);
    const metrics = `http://127.0.0.1:${ports.supplierMetrics}`;
    return [{ operator: operatorAddress, owner: ownerAddress, url, services: ids, metrics }];
  });
  const { applications } = await client.ask(application.Query.method.allApplications, {
    delegateeGatewayAddress: gatewaySigner.address,
  });
  return {
    suppliers: suppliers.sort((a, b) => (a.url < b.url ? -1 : 1)),
    applications: applications.map(({ address, serviceConfigs }) => ({
      address,
      service: serviceConfigs[0]?.serviceId ?? "",
    })),
    gatewayAddress: gatewaySigner.address,
  };
}

/** The port that metrics (HTTP/1.1) and the chain's gRPC (HTTP/2) share. It is held here, so that either may die alone. */
export function splitterPart(ports: UpPorts, inner: InnerPorts, modules: { readonly log: Log }): Part {
  const start = async (): Promise<RunningPart> => {
    const splitter = await startPortSplitter(
      { host: "127.0.0.1", port: ports.metrics, http1: { port: inner.metrics }, http2: { port: inner.grpc } },
      modules,
    );
    const stop = async (): Promise<void> => splitter[Symbol.asyncDispose]();
    return { exited: neverExits, ready: () => Promise.resolve(), stop, kill: stop };
  };
  return { name: "port-splitter", start };
}
