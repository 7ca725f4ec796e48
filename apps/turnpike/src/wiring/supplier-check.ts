import { connect } from "node:net";
import { systemClock } from "@turnpike/base";
import { type ChainAnswer, ChainClient, PocketQueries } from "@turnpike/chain-client";
import type { Config } from "@turnpike/config";
import type { shared } from "@turnpike/proto";
import { rpcTypeOfNumber } from "@turnpike/protocol";
import { type SupplierOperator, supplierOperators } from "./supplier.ts";

/** One thing that was looked at. */
export interface Finding {
  readonly ok: boolean;
  readonly what: string;
  /** What was found, or what is wrong and how to correct it. */
  readonly text: string;
}

const CONNECT_TIMEOUT_MS = 3_000;

const good = (what: string, text = ""): Finding => ({ ok: true, what, text });
const bad = (what: string, text: string): Finding => ({ ok: false, what, text });

/** True when something listens at the address of a URL. */
async function answers(url: string): Promise<boolean> {
  const { hostname, port, protocol } = new URL(url);
  const isSecure = protocol === "https:" || protocol === "wss:";
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ host: hostname.replace(/^\[|\]$/g, ""), port: Number(port) || (isSecure ? 443 : 80) });
  socket.setTimeout(CONNECT_TIMEOUT_MS, () => resolve(false));
  socket.once("connect", () => resolve(true));
  socket.once("error", () => resolve(false));
  const found = await promise;
  socket.destroy();
  return found;
}

async function backEndFindings(config: Config): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const [id, { backends }] of Object.entries(config.supplier.services)) {
    for (const [rpcType, backEnd] of Object.entries(backends)) {
      const what = `back-end ${id} ${rpcType}`;
      const isThere = await answers(backEnd.url);
      findings.push(isThere ? good(what) : bad(what, "nothing listens at its address; start it, or correct the URL"));
    }
  }
  return findings;
}

/** What the chain says of one operator, against what is configured. */
export function stakeFindings(
  config: Config,
  operator: Pick<SupplierOperator, "address" | "port">,
  staked: shared.Supplier,
): Finding[] {
  const findings: Finding[] = [];
  const configured = config.supplier.services;
  for (const { serviceId, endpoints } of staked.services) {
    const what = `${operator.address} ${serviceId}`;
    const service = configured[serviceId];
    if (service === undefined) {
      findings.push(
        bad(what, `staked, and not in supplier.services: its relays are refused. Add it, or stake without it`),
      );
      continue;
    }
    for (const { url, rpcType } of endpoints) {
      const name = rpcTypeOfNumber(rpcType) ?? "unknown";
      if (!Object.hasOwn(service.backends, name)) {
        findings.push(bad(what, `staked for ${name}, and supplier.services.${serviceId}.backends has none`));
      }
      const port = URL.canParse(url) ? new URL(url).port : "";
      if (port !== "" && operator.port !== 0 && Number(port) !== operator.port) {
        findings.push(
          good(what, `the endpoint ${url} is on another port than ${operator.port}: a proxy must be between`),
        );
      }
    }
    findings.push(good(what, `${endpoints.length} endpoints`));
  }
  for (const id of Object.keys(configured)) {
    if (staked.services.some(({ serviceId }) => serviceId === id)) continue;
    const what = `${operator.address} ${id}`;
    const next = staked.serviceConfigHistory.find(
      ({ service, deactivationHeight }) => service?.serviceId === id && deactivationHeight === 0n,
    );
    findings.push(
      next === undefined
        ? bad(what, "configured, and not staked for: no session names it. Stake for it")
        : good(what, `staked, and in sessions from block ${next.activationHeight} on`),
    );
  }
  return findings;
}

function faultText<T>(answer: Extract<ChainAnswer<T>, { ok: false }>): string {
  return answer.fault === "refused" ? answer.text : "the chain's node does not answer; see supplier.nodeUrl";
}

async function operatorFindings(
  config: Config,
  operator: SupplierOperator,
  queries: PocketQueries,
): Promise<Finding[]> {
  const staked = await queries.supplier(operator.address);
  if (!staked.ok) return [bad(operator.address, `is not staked: ${faultText(staked)}`)];
  const findings = stakeFindings(config, operator, staked.value);
  const key = await queries.publicKey(operator.address);
  if (!key.ok) findings.push(bad(operator.address, faultText(key)));
  const balance = await queries.balance(operator.address);
  if (!balance.ok) findings.push(bad(operator.address, faultText(balance)));
  else {
    const least = BigInt(config.supplier.minBalanceUpokt);
    const what = `${operator.address} balance`;
    findings.push(
      balance.value >= least
        ? good(what, `${balance.value} upokt`)
        : bad(
            what,
            `${balance.value} upokt, less than supplier.minBalanceUpokt (${least}); claims and proofs pay fees`,
          ),
    );
  }
  return findings;
}

/** Holds a supplier's configuration against the chain and its back-ends. @throws AppError CONFIG_INVALID */
export async function checkSupplier(config: Config): Promise<readonly Finding[]> {
  const operators = supplierOperators(config);
  const { nodeUrl } = config.supplier;
  if (nodeUrl === undefined || operators.length === 0) {
    return [bad("supplier", "supplier.nodeUrl and supplier.keys are needed; see docs/supply.md")];
  }
  await using client = new ChainClient({ url: nodeUrl }, { clock: systemClock });
  const queries = new PocketQueries({}, { client, clock: systemClock });
  const found = await Promise.all(operators.map((operator) => operatorFindings(config, operator, queries)));
  return [...found.flat(), ...(await backEndFindings(config))];
}
