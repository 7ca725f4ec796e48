import { inspect } from "node:util";
import { type Address, isRecord } from "@turnpike/base";
import { devRpc } from "@turnpike/localnet";
import { auditLedger } from "@turnpike/payment";
import { eventually, PATIENCE_MS } from "@turnpike/testkit";
import { createRandom } from "../../soak/random.ts";
import type { ChaosFigure, ChaosPart } from "../chaos.ts";
import { type Attackers, createAttackers } from "./attackers.ts";
import { type BuyerRates, type Buyers, createBuyers, isOpen, isSold, type Sale } from "./buyers.ts";
import { type ChainRecord, readChainRecord, useName } from "./chain-record.ts";
import { type LedgerRows, paymentHistory, pendingOf, readLedgerRows, TABLES } from "./ledger-rows.ts";
import { PRICE, type Setup, startSetup } from "./setup.ts";

/** By the size of the run, in seconds. */
const SECONDS = { short: 20, full: 600 } as const;
/**
 * Time that payers sign for, in seconds: the default of the configuration; in a test so long that no payment of a buyer is
 * late, however busy the machine is.
 */
const WINDOW_SECONDS = { short: 300, full: 60 } as const;
const RATES: BuyerRates = {
  buyers: 50,
  sales: { perSecond: 4, maxAtOnce: 100 },
  settlements: { perSecond: 0.5, maxAtOnce: 10 },
};
const MAX_REFUSED_SHARE = 0.001;
/** After the attack every payment's window closes, and what the provider refused is cancelled and sent in others. */
const DRAIN_MS = 6 * PATIENCE_MS;
/** Sales in which each relayer key has to settle one. */
const MOST_SALES_AFTER = 20;
const LOOK_MS = 1_000;
/** Refused sales that are explained. */
const MOST_EXPLAINED = 10;

type Role = "gateway" | "facilitator";
const ROLES: readonly Role[] = ["gateway", "facilitator"];

/** What must hold and did not. */
interface Faults {
  /** Of money and its records: holds on any machine, however slow. */
  readonly money: string[];
  /** Of what is sold and kept, and how soon: on a machine that is too slow it may not hold. The short form only prints it. */
  readonly service: string[];
}

/**
 * Attackers, all at once, while honest buyers buy: whatever they do, honest sales are sold and settled once, no relayer
 * key is jammed and no table grows without bound. `TURNPIKE_CHAOS_SEED` repeats the attackers' choices.
 */
export const attack: ChaosPart = async ({ size, seconds = SECONDS[size], progress }) => {
  const seed = Number(process.env.TURNPIKE_CHAOS_SEED ?? Math.floor(Math.random() * 1_000_000));
  progress(`seed ${seed}, ${seconds} s`);
  await using setup = await startSetup(WINDOW_SECONDS[size]);
  const buyers = await createBuyers(setup, RATES);
  const attackers = createAttackers(setup, createRandom(seed));
  const before = await rowsOf(setup);
  const memoryBefore = await memoryOf(setup);
  const failed = await run({ buyers, attackers, seconds, progress });
  progress("the attack is over");
  const memoryAfter = await memoryOf(setup);
  const faults: Faults = { money: [], service: [] };
  // Payments whose funds are gone are pending until their windows close; a short run does not wait for that.
  if (size === "short") await setup.skip(setup.windowSeconds);
  await drain(setup, faults.money);
  await buyers.finish();
  const duringSales = buyers.sales.length;
  const duringSettlements = buyers.settlements.length;
  await checkKeys({ setup, buyers, faults });
  const found: Found = {
    setup,
    buyers,
    attackers,
    before,
    after: await rowsOf(setup),
    chain: await readChainRecord(setup.chainUrl, {
      relayers: new Set(ROLES.flatMap((role) => setup.relayers[role].map((key) => key.toLowerCase()))),
      honest: new Set(buyers.payers.map(({ address }) => address.toLowerCase())),
      attackers: attackers.accounts,
    }),
  };
  const refused = buyers.sales.filter((sale) => !isSold(sale));
  if (refused.length > duringSales * MAX_REFUSED_SHARE)
    faults.service.push(`${refused.length} of ${duringSales} sales refused`);
  const unsettled = buyers.settlements.filter((sale) => !isSold(sale));
  if (unsettled.length > 0) faults.service.push(`${unsettled.length} of ${duringSettlements} settlements refused`);
  faults.money.push(...(await wrongMoney(found)));
  const gas = gasBalance(found);
  if (gas.lost > gas.earned - gas.spent)
    faults.service.push(`${gas.lost} gas lost, ${gas.earned - gas.spent} left of what the sales paid for`);
  faults.service.push(...unboundedTables(found));
  for (const { name, presentations } of attackers.tallies)
    if (presentations === 0) faults.service.push(`not done: ${name}`);
  for (const role of ROLES) if (!setup[role].lives) faults.money.push(`the ${role} ended`);
  const figures: ChaosFigure[] = [
    ...saleFigures("sales", buyers.sales, duringSales),
    { what: "sales not begun, since all buyers waited", value: buyers.leftOut, unit: "" },
    ...saleFigures("settlements by the facilitator", buyers.settlements, duringSettlements),
    ...attackFigures(found),
    ...gasFigures(found),
    ...tableFigures(found),
    ...ROLES.map((role) => ({
      what: `memory of the ${role}: growth`,
      value: (memoryAfter[role] - memoryBefore[role]) / 1_048_576,
      unit: "MB",
    })),
    ...warningFigures(setup),
    { what: "faults of this program", value: failed.length, unit: "" },
  ];
  for (const error of new Set(failed.map(String))) progress(error);
  for (const sale of refused.slice(0, MOST_EXPLAINED)) {
    const history = await paymentHistory(setup.postgresUrl, setup.schemas.gateway, sale.signed);
    const codes = countOf(sale.codes).map(([code, count]) => `${count} ${code}`);
    progress(`refused: ${codes.join(", ")}; ${history.join("; ")}`);
  }
  if (size === "full") return { figures, faults: [...faults.money, ...faults.service] };
  for (const text of faults.service) progress(`no fault in the short form: ${text}`);
  return { figures, faults: faults.money };
};

interface Found {
  readonly setup: Setup;
  readonly buyers: Buyers;
  readonly attackers: Attackers;
  readonly before: Readonly<Record<Role, LedgerRows>>;
  readonly after: Readonly<Record<Role, LedgerRows>>;
  readonly chain: ChainRecord;
}

async function run(work: {
  readonly buyers: Buyers;
  readonly attackers: Attackers;
  readonly seconds: number;
  readonly progress: (text: string) => void;
}): Promise<readonly unknown[]> {
  const { buyers, attackers, seconds, progress } = work;
  const over = AbortSignal.timeout(seconds * 1_000);
  const reporter = setInterval(() => {
    const sold = buyers.sales.filter(isSold).length;
    const presented = attackers.tallies.reduce((sum, { presentations }) => sum + presentations, 0);
    progress(`${buyers.sales.length} sales, ${sold} sold; attackers presented ${presented} payments`);
  }, 10_000);
  try {
    return (await Promise.all([buyers.run(over), attackers.run(over)])).flat();
  } finally {
    clearInterval(reporter);
  }
}

async function rowsOf({ postgresUrl, schemas }: Setup): Promise<Readonly<Record<Role, LedgerRows>>> {
  const [gateway, facilitator] = await Promise.all(ROLES.map((role) => readLedgerRows(postgresUrl, schemas[role])));
  if (gateway === undefined || facilitator === undefined) throw new TypeError("no ledgers");
  return { gateway, facilitator };
}

async function metricOf(setup: Setup, role: Role, name: string): Promise<number> {
  const text = await (await fetch(setup[role].metricsUrl)).text();
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)`, "m").exec(text)?.[1] ?? Number.NaN);
}

async function memoryOf(setup: Setup): Promise<Readonly<Record<Role, number>>> {
  const [gateway = 0, facilitator = 0] = await Promise.all(
    ROLES.map((role) => metricOf(setup, role, "process_resident_memory_bytes")),
  );
  return { gateway, facilitator };
}

/** Waits until every payment and every nonce has its end. */
async function drain(setup: Setup, faults: string[]): Promise<void> {
  for (const role of ROLES) {
    let rows: LedgerRows | undefined;
    let nextLookMs = 0;
    const look = async (): Promise<boolean> => {
      // Every few milliseconds would be a load of its own.
      if (performance.now() < nextLookMs) return false;
      nextLookMs = performance.now() + LOOK_MS;
      rows = await readLedgerRows(setup.postgresUrl, setup.schemas[role]);
      return pendingOf(rows) === 0 && rows.openBatches === 0;
    };
    try {
      await eventually(`all payments of the ${role} have ended`, look, DRAIN_MS);
    } catch {
      const left = rows === undefined ? "" : `${pendingOf(rows)} pending payments, ${rows.openBatches} open nonces`;
      faults.push(`the ${role}: ${left}`);
    }
  }
}

/** Finds relayer keys that are jammed once all has ended. Buys until each has settled something. */
async function checkKeys(work: {
  readonly setup: Setup;
  readonly buyers: Buyers;
  readonly faults: Faults;
}): Promise<void> {
  const { setup, buyers, faults } = work;
  const nonceOf = async (key: Address, block: "latest" | "pending"): Promise<number> =>
    Number(await devRpc(setup.chainUrl, "eth_getTransactionCount", [key, block]));
  const purchase = { gateway: () => buyers.buy(), facilitator: () => buyers.settle() };
  for (const role of ROLES) {
    const keys = setup.relayers[role];
    const ended = new Map<Address, number>();
    for (const key of keys) ended.set(key, await nonceOf(key, "latest"));
    const idle = new Set(keys);
    for (let count = 0; count < MOST_SALES_AFTER && idle.size > 0; count++) {
      const sale = await purchase[role]();
      if (!isSold(sale)) faults.service.push(`a payment after the attack: ${sale.codes.join()}`);
      for (const key of keys) if ((await nonceOf(key, "latest")) > (ended.get(key) ?? 0)) idle.delete(key);
    }
    for (const key of idle) faults.service.push(`a key of the ${role} settles nothing any more: ${key}`);
    await drain(setup, faults.money);
    const { nextNonces } = await readLedgerRows(setup.postgresUrl, setup.schemas[role]);
    for (const key of keys) {
      const nonces = [await nonceOf(key, "latest"), await nonceOf(key, "pending"), nextNonces.get(key.toLowerCase())];
      if (new Set(nonces).size > 1) faults.money.push(`nonces of ${key}: mined, pending, journaled ${nonces.join()}`);
    }
    for (const gauge of ["turnpike_settlement_open_batches", "turnpike_settlement_queue"]) {
      // It is set at each look at the chain.
      const look = async (): Promise<boolean> => (await metricOf(setup, role, gauge)) === 0;
      await eventually(`${gauge} is 0`, look).catch((error: unknown) =>
        faults.money.push(`the ${role}: ${String(error)}`),
      );
    }
  }
  const pool: unknown = await devRpc(setup.chainUrl, "txpool_status", []);
  if (!isRecord(pool) || Number(pool.pending) !== 0 || Number(pool.queued) !== 0) {
    faults.money.push(`transactions in the node's pool: ${JSON.stringify(pool)}`);
  }
}

/** Sold and settled once, or not sold and not charged; and the ledgers hold what the chain holds. */
async function wrongMoney({ setup, buyers, attackers, chain, after }: Found): Promise<string[]> {
  const faults: string[] = [];
  for (const [name, count] of chain.uses) {
    if (count > 1) faults.push(`${count} transfers of one payment: ${name}`);
    const [payer = ""] = name.split(" ");
    if (attackers.failing.has(payer)) faults.push(`charged for a call that failed: ${name}`);
  }
  for (const { payer, nonce } of attackers.sold) {
    if (!chain.uses.has(useName(payer, nonce))) faults.push(`served unpaid: ${useName(payer, nonce)}`);
  }
  const paid = new Map<string, bigint>();
  for (const sale of [...buyers.sales, ...buyers.settlements]) {
    if (isOpen(sale)) faults.push(`a sale without an end: ${sale.codes.join()}`);
    const { payer, nonce } = sale.signed;
    const uses = chain.uses.get(useName(payer, nonce)) ?? 0;
    const expected = isSold(sale) ? 1 : 0;
    if (uses !== expected) faults.push(`${uses} transfers of a payment that was answered ${sale.codes.join()}`);
    if (isSold(sale)) paid.set(payer, (paid.get(payer) ?? 0n) + PRICE);
  }
  for (const { address } of buyers.payers) {
    const spent = buyers.fundsEach - (await setup.balance(address));
    const owed = paid.get(address) ?? 0n;
    if (spent !== owed) faults.push(`${address} bought for ${owed} and paid ${spent}`);
  }
  const receivers = { gateway: setup.payTo, facilitator: setup.merchant };
  for (const role of ROLES) {
    const received = await setup.balance(receivers[role]);
    const { settled = 0, owed = 0, disputed = 0 } = after[role].states;
    if (received !== BigInt(settled) * PRICE)
      faults.push(`the ${role} settled ${settled} payments and got ${received}`);
    if (owed + disputed > 0) faults.push(`the ${role}: ${owed} owed, ${disputed} disputed`);
    const audit = await auditLedger(setup.postgresUrl, {
      schema: setup.schemas[role],
      connectTimeoutMs: PATIENCE_MS,
    });
    for (const difference of audit.differences) faults.push(`ledger of the ${role}: ${inspect(difference)}`);
  }
  return faults;
}

/** A payment is put into so many further transactions at most: the ledger's rule. */
const MAX_RESENDS = 3;
/** A claim is made, signed and resolved: each change is an event. */
const EVENTS_OF_A_CLAIM = 3;
/** Transactions of one nonce: it is replaced every ten seconds at most, within a payment's window and half a minute. */
const TRANSACTIONS_OF_A_BATCH = 10;

/** Most rows that each table may have, with why; from what was presented, since nothing else makes rows. */
function boundsOf(
  role: Role,
  { buyers, attackers, after }: Found,
): Readonly<Record<string, readonly [number, string]>> {
  const sales = role === "gateway" ? buyers.sales : buyers.settlements;
  const isHere = (name: string): boolean => name.includes("facilitator") === (role === "facilitator");
  const tallies = attackers.tallies.filter(({ name }) => isHere(name));
  const funded = tallies.reduce((sum, { fundedPayments }) => sum + fundedPayments, 0);
  const presented =
    tallies.reduce((sum, { fundedPresentations }) => sum + fundedPresentations, 0) +
    sales.reduce((sum, { codes }) => sum + codes.length, 0);
  const { payments, former_ids: formerIds, batches } = after[role].rows;
  return {
    payments: [sales.length + funded, "one a payment of an account with funds"],
    former_ids: [presented, "one a claim that was made again after its release; deleted with its payment"],
    events: [EVENTS_OF_A_CLAIM * (payments + formerIds), "three a claim"],
    answers: [payments, "one a payment; deleted after an hour"],
    batches: [(1 + MAX_RESENDS) * payments, "a payment is put into four transactions at most"],
    transactions: [TRANSACTIONS_OF_A_BATCH * batches, "ten replacements a nonce"],
    holders: [4, "one a process"],
    relayers: [2, "one a key"],
    blocked_payers: [0, "an operator's"],
    open_results: [payments, "one a payment at most; deleted after a week"],
    settlement_budgets: [0, "a third party's at a facilitator; deleted after their day"],
    wallet_risks: [3 * payments + 2, "a payer and two of its code a payment at most; deleted after a week"],
    wallet_runs: [payments, "one a payment of an account with code, or that is lost; deleted after a week"],
  };
}

function unboundedTables(found: Found): string[] {
  return ROLES.flatMap((role) =>
    Object.entries(boundsOf(role, found)).flatMap(([table, [bound, why]]) => {
      const rows = found.after[role].rows[table as (typeof TABLES)[number]];
      return rows > bound ? [`${rows} rows of ${table} of the ${role}, more than ${bound} (${why})`] : [];
    }),
  );
}

function tableFigures(found: Found): ChaosFigure[] {
  const { before, after, buyers } = found;
  return ROLES.flatMap((role) => {
    const bounds = boundsOf(role, found);
    const sales = role === "gateway" ? buyers.sales : buyers.settlements;
    return [
      ...TABLES.map((table) => ({
        what: `rows of ${table} (${role})`,
        value: after[role].rows[table],
        unit: `(${before[role].rows[table]} before; at most ${bounds[table]?.[0]}: ${bounds[table]?.[1]})`,
      })),
      ...Object.entries(after[role].states).map(([state, value]) => ({
        what: `payments ${state} (${role})`,
        value,
        unit: "",
      })),
      { what: `payments a honest sale (${role})`, value: after[role].rows.payments / sales.length, unit: "" },
      { what: `ledger (${role}): growth`, value: (after[role].bytes - before[role].bytes) / 1_048_576, unit: "MB" },
    ];
  });
}

function saleFigures(name: string, all: readonly Sale[], during: number): ChaosFigure[] {
  const sales = all.slice(0, during);
  const sold = sales.filter(isSold);
  const tookMs = sold.map((sale) => sale.tookMs).sort((a, b) => a - b);
  const at = (share: number): number =>
    Math.round(tookMs[Math.min(tookMs.length - 1, Math.floor(share * tookMs.length))] ?? 0);
  const refused = countOf(sales.filter((sale) => !isSold(sale)).map(({ codes }) => codes.at(-1) ?? "NO_ANSWER"));
  const onTheWay = countOf(sales.flatMap(({ codes }) => codes.slice(0, -1)));
  return [
    { what: `honest ${name}: attempted`, value: sales.length, unit: "" },
    { what: `honest ${name}: sold`, value: sold.length, unit: "" },
    {
      what: `honest ${name}: sold at the first presentation`,
      value: sold.filter(({ codes }) => codes.length === 1).length,
      unit: "",
    },
    { what: `honest ${name}: refused`, value: sales.length - sold.length, unit: "" },
    { what: `honest ${name}: refused share`, value: (100 * (sales.length - sold.length)) / sales.length, unit: "%" },
    ...refused.map(([code, value]) => ({ what: `honest ${name}: refused for good, ${code}`, value, unit: "" })),
    ...onTheWay.map(([code, value]) => ({ what: `honest ${name}: presented again after ${code}`, value, unit: "" })),
    ...([0.5, 0.99, 1] as const).map((share) => ({
      what: `honest ${name}: time to the answer, ${share === 1 ? "longest" : `p${share * 100}`}`,
      value: at(share),
      unit: "ms",
    })),
  ];
}

function attackFigures({ attackers, setup }: Found): ChaosFigure[] {
  return [
    ...attackers.tallies.flatMap(({ name, presentations, fundedAccounts, codes }) => [
      { what: `${name}: presented`, value: presentations, unit: `(${fundedAccounts} accounts with funds)` },
      ...[...codes]
        .sort(([a], [b]) => a.localeCompare(b))
        .map(([code, value]) => ({ what: `${name}: ${code}`, value, unit: "" })),
    ]),
    { what: "transactions that the provider refused", value: setup.provider.refused, unit: "" },
    { what: "transactions that the provider passed on", value: setup.provider.passed, unit: "" },
  ];
}

/**
 * Gas that one sale pays for: its price of half a US cent, at 64,000 gas for 0.00144 US dollars (published for Base, 2026).
 */
const GAS_OF_A_SALE = 222_000;

/** Gas that the sales paid for, that settled them, and that settled nothing. */
function gasBalance({ chain }: Found): { readonly earned: number; readonly spent: number; readonly lost: number } {
  let [earned, spent, lost] = [0, 0, 0];
  for (const { gasUsed, honest, attackers, settled } of chain.settlements) {
    const gas = Number(gasUsed);
    const share = honest + attackers === 0 ? 0 : Math.min(1, settled / (honest + attackers));
    earned += settled * GAS_OF_A_SALE;
    spent += gas * share;
    lost += gas * (1 - share);
  }
  return { earned, spent: Math.round(spent), lost: Math.round(lost) };
}

function gasFigures(found: Found): ChaosFigure[] {
  const { chain } = found;
  const balance = gasBalance(found);
  const sum = (list: readonly { readonly gasUsed: bigint }[]): bigint =>
    list.reduce((total, { gasUsed }) => total + gasUsed, 0n);
  const pure = chain.settlements.filter(({ honest, attackers }) => honest > 0 && attackers === 0);
  const rest = chain.settlements.filter(({ attackers }) => attackers > 0);
  const empty = chain.settlements.filter(({ honest, attackers }) => honest + attackers === 0);
  const honestItems = pure.reduce((total, { honest }) => total + honest, 0);
  const each = honestItems === 0 ? 0n : sum(pure) / BigInt(honestItems);
  const carried = rest.reduce((total, { honest }) => total + honest, 0);
  const items = rest.reduce((total, { attackers }) => total + attackers, 0);
  const byAttackers = sum(rest) - each * BigInt(carried);
  return [
    {
      what: "gas of a honest payment",
      value: Number(each),
      unit: `(${honestItems} in ${pure.length} transactions of their own)`,
    },
    {
      what: "gas of attackers' payments",
      value: Number(byAttackers),
      unit: `(${items} in ${rest.length} transactions)`,
    },
    { what: "gas of one attackers' payment", value: items === 0 ? 0 : Number(byAttackers) / items, unit: "" },
    { what: "gas of empty transactions, which cancel", value: Number(sum(empty)), unit: `(${empty.length})` },
    { what: "gas lost: of what settled nothing", value: balance.lost, unit: "" },
    { what: "gas that the sales paid for", value: balance.earned, unit: `(${GAS_OF_A_SALE} a sale)` },
    { what: "gas that settled them", value: balance.spent, unit: "" },
    { what: "gas of all", value: Number(sum(chain.settlements)), unit: "" },
  ];
}

function warningFigures(setup: Setup): ChaosFigure[] {
  return ROLES.flatMap((role) =>
    [...setup[role].warnings].map(([text, value]) => ({ what: `log of the ${role}: ${text}`, value, unit: "" })),
  );
}

function countOf(codes: readonly string[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const code of codes) counts.set(code, (counts.get(code) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a);
}
