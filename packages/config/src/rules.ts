import { isLoopbackUrl } from "@turnpike/base";
import { chainFaults, chainPorts, isChainAlone } from "./chain-rules.ts";
import { DANGEROUS } from "./dangerous.ts";
import { proxyFaults } from "./limit-rules.ts";
import { portalFaults, portalPorts } from "./portal-rules.ts";
import { protocolFaults, supplierPorts } from "./protocol-rules.ts";
import type { Config, NetworkConfig } from "./schema.ts";
import { searchFaults, searchPorts } from "./search-rules.ts";
import { profitFaults } from "./settlement-rules.ts";

const WILDCARDS = new Set(["0.0.0.0", "::", "[::]"]);

function portFaults(config: Config): string[] {
  const { gateway } = config;
  const taken = [
    ...(isChainAlone(config)
      ? []
      : [
          { path: "gateway.port", host: gateway.host, port: gateway.port },
          { path: "gateway.metrics.port", host: gateway.metrics.host, port: gateway.metrics.port },
        ]),
    { path: "facilitator.port", host: config.facilitator.host, port: config.facilitator.port },
    {
      path: "facilitator.metrics.port",
      host: config.facilitator.metrics.host,
      port: config.facilitator.metrics.port ?? 0,
    },
    { path: "admin.port", host: config.admin.host, port: config.admin.port ?? 0 },
    ...portalPorts(config),
    ...searchPorts(config),
    ...chainPorts(config),
    ...supplierPorts(config),
  ];
  const faults: string[] = [];
  for (const [at, a] of taken.entries()) {
    for (const b of taken.slice(at + 1)) {
      const meet = a.host === b.host || WILDCARDS.has(a.host) || WILDCARDS.has(b.host);
      if (a.port !== 0 && a.port === b.port && meet) {
        faults.push(`${b.path}: ${b.port} is also ${a.path}; set ${b.path} to a free port, such as ${b.port + 1}`);
      }
    }
  }
  return faults;
}

function sampleFaults(config: Config): string[] {
  const faults: string[] = [];
  const { networks, relayer } = config.payment;
  if (config.localnet) {
    for (const [at, network] of networks.entries()) {
      for (const [url, text] of network.rpcUrls.entries()) {
        if (!isLoopbackUrl(text)) {
          faults.push(
            `payment.networks[${at}].rpcUrls[${url}]: with localnet: true only chains on this machine are allowed; remove localnet`,
          );
        }
      }
    }
    return faults;
  }
  const keys = [
    { path: "payment.relayer.keys", keys: relayer.keys },
    { path: "facilitator.relayer.keys", keys: config.facilitator.relayer.keys },
    ...networks.map(({ relayer: own }, at) => ({ path: `payment.networks[${at}].relayer.keys`, keys: own.keys })),
  ];
  for (const { path, keys: found } of keys) {
    if (found.length > 0) {
      faults.push(`${path}: keys may not stand in a configuration; use keysFile or TURNPIKE_RELAYER_KEYS`);
    }
  }
  for (const [at, network] of networks.entries()) {
    if (DANGEROUS.addresses.includes(network.payTo.toLowerCase())) {
      faults.push(`payment.networks[${at}].payTo: this is a sample account whose key everybody knows; use your own`);
    }
  }
  return faults;
}

/** Words of tokens that stand in examples. */
const SAMPLE_TOKEN = /^(.)\1*$|change[-_]?me|choose[-_]?one|secret|password|example/i;

/** The admin API is never open. */
function adminFaults({ admin }: Config): string[] {
  if (admin.port === undefined) return [];
  const how = "set TURNPIKE_ADMIN_TOKEN to one of your own, such as of openssl rand -hex 32";
  if (admin.token === undefined) return [`admin.token: missing; the admin API needs one: ${how}`];
  return SAMPLE_TOKEN.test(admin.token) ? [`admin.token: this is a sample, not a secret; ${how}`] : [];
}

function socketFaults({ gateway: { webSockets, maxConnections } }: Config): string[] {
  if (webSockets.max < maxConnections) return [];
  return [
    `gateway.webSockets.max: ${webSockets.max} leaves no connection for other requests; set it below gateway.maxConnections (${maxConnections})`,
  ];
}

/** What is a chain's own, not a token's: a second token of the chain must say the same. */
const CHAIN_KEYS = ["rpcUrls", "multicall3", "confirmations", "finalityBlocks", "blockTimeSeconds", "relayer"] as const;

/** A payment that is settled at the end of its call must still get into a block of its window. */
function windowFaults(path: string, network: NetworkConfig, settleMarginMs: number): string[] {
  const { blockTimeSeconds, maxTimeoutSeconds } = network;
  const needed = Math.floor(blockTimeSeconds + settleMarginMs / 1_000) + 1;
  if (blockTimeSeconds * 1_000 + settleMarginMs < maxTimeoutSeconds * 1_000) return [];
  return [
    `${path}.maxTimeoutSeconds: ${maxTimeoutSeconds} leaves no time for a call beside one block (blockTimeSeconds ${blockTimeSeconds}) and payment.settleMarginMs (${settleMarginMs}); set at least ${needed}`,
  ];
}

/** Blocks that may be missed, or be the one in which a payment is sent, without a settlement that is answered as pending. */
const LATE_BLOCKS = 2;

/** A seller whose call ends before its settlement has its confirmations charges its buyers and refuses them. */
function confirmationFaults(path: string, network: NetworkConfig, settleWaitMs: number): string[] {
  const { confirmations, blockTimeSeconds } = network;
  const neededMs = (confirmations + LATE_BLOCKS) * blockTimeSeconds * 1_000;
  if (neededMs < settleWaitMs) return [];
  return [
    `${path}.confirmations: ${confirmations} blocks of ${blockTimeSeconds} seconds and two blocks that may come late do not fit into payment.settleWaitMs (${settleWaitMs}), after which the settlement is answered as pending; set it above ${Math.ceil(neededMs)}, or fewer confirmations`,
  ];
}

/** Longest time after which a facilitator answers that a settlement is pending: the reference client waits 90 seconds. */
const LONGEST_FACILITATOR_WAIT_MS = 60_000;

/** A gateway must hear that a settlement is pending, and not take it for silence. */
function remoteFaults({ payment }: Config): string[] {
  const { mode, facilitatorUrl, facilitatorTimeoutMs, settleWaitMs } = payment;
  if (mode !== "remote") return [];
  const waitMs = Math.min(settleWaitMs, LONGEST_FACILITATOR_WAIT_MS);
  return [
    ...(facilitatorUrl === undefined
      ? ["payment.facilitatorUrl: missing; payment.mode remote needs the facilitator's URL"]
      : []),
    ...(facilitatorTimeoutMs <= waitMs
      ? [
          `payment.facilitatorTimeoutMs: ${facilitatorTimeoutMs} ends before a facilitator with this payment.settleWaitMs (${settleWaitMs}) answers that a settlement is pending, after ${waitMs} milliseconds; set it above ${waitMs}`,
        ]
      : []),
  ];
}

/** The payment networks: each token once, and each chain with one set of rules. */
function networkFaults({ payment: { networks, settleMarginMs, settleWaitMs } }: Config): string[] {
  const faults: string[] = [];
  const tokens = new Map<string, number>();
  const chains = new Map<string, number>();
  for (const [at, network] of networks.entries()) {
    const path = `payment.networks[${at}]`;
    const token = `${network.network} ${network.asset.toLowerCase()}`;
    const twin = tokens.get(token);
    if (twin !== undefined) faults.push(`${path}: the same network and asset as payment.networks[${twin}]; remove one`);
    else tokens.set(token, at);
    const first = chains.get(network.network) ?? at;
    chains.set(network.network, first);
    const other = networks[first] ?? network;
    faults.push(...windowFaults(path, network, settleMarginMs), ...confirmationFaults(path, network, settleWaitMs));
    for (const key of CHAIN_KEYS) {
      // of URLs, letter case counts
      const text = (value: unknown): string =>
        key === "multicall3" ? String(value).toLowerCase() : JSON.stringify(value);
      if (text(network[key]) === text(other[key])) continue;
      faults.push(
        `${path}.${key}: differs from payment.networks[${first}].${key}; both are tokens of ${network.network}, so write the same in both`,
      );
    }
  }
  return faults;
}

/** Sellers are distinguished by their names and keys. */
function sellerFaults({ facilitator: { sellers } }: Config): string[] {
  return (["name", "keySha256"] as const).flatMap((key) =>
    sellers.flatMap((seller, at) => {
      const twin = sellers.findIndex((other) => other[key] === seller[key]);
      return twin === at
        ? []
        : [`facilitator.sellers[${at}].${key}: the same as of facilitator.sellers[${twin}]; give it another`];
    }),
  );
}

/** Rules that a schema cannot say: one line for each fault, with the path and the fix. */
export function ruleFaults(config: Config): string[] {
  const faults = [
    ...portFaults(config),
    ...adminFaults(config),
    ...socketFaults(config),
    ...sampleFaults(config),
    ...proxyFaults(config),
    ...portalFaults(config),
    ...searchFaults(config),
    ...chainFaults(config),
    ...protocolFaults(config),
  ];
  faults.push(...remoteFaults(config));
  if (WILDCARDS.has(config.gateway.host) && config.gateway.publicUrl === undefined) {
    faults.push(
      `gateway.publicUrl: missing; ${config.gateway.host} is no address that buyers can use, so set the one that they see`,
    );
  }
  const { relayer: apart } = config.facilitator;
  const ours = [config.payment.relayer, ...config.payment.networks.map(({ relayer }) => relayer)];
  const own = new Set(ours.flatMap(({ keys }) => keys).map((key) => key.toLowerCase()));
  const sameFile = apart.keysFile !== undefined && ours.some(({ keysFile }) => apart.keysFile === keysFile);
  if (sameFile || apart.keys.some((key) => own.has(key.toLowerCase()))) {
    faults.push(
      "facilitator.relayer: has keys of payment.relayer; give it others, or both would use the same nonces of one account",
    );
  }
  faults.push(...networkFaults(config), ...profitFaults(config), ...sellerFaults(config));
  for (const [id, supplier] of Object.entries(config.suppliers)) {
    for (const [at, endpoint] of supplier.endpoints.entries()) {
      if (Object.keys(endpoint.urls).length === 0) {
        faults.push(`suppliers.${id}.endpoints[${at}].urls: empty; set json_rpc, rest, comet_bft or websocket`);
      }
    }
  }
  return faults;
}
