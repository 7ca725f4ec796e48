import { randomBytes } from "node:crypto";
import { setCode } from "@turnpike/localnet";
import { delegateCode, deploySwitchWallet, parityWallet, type SwitchWallet } from "@turnpike/testkit/servers";
import type { Random } from "../../soak/random.ts";
import type { Payer } from "../../support/payer.ts";
import { keepPace, type Pace, sleep } from "./pace.ts";
import { present, presentTo, type Signed, sign } from "./present.ts";
import { PRICE, type Setup } from "./setup.ts";
import { failingCall } from "./supplier.ts";

/** What an attack has done. */
export interface AttackTally {
  readonly name: string;
  /** Accounts that held funds when they were made. */
  fundedAccounts: number;
  /** Payments that such an account signed for what is sold: each may be a row of the ledger. */
  fundedPayments: number;
  /** How often such payments were presented: each may be a claim. */
  fundedPresentations: number;
  /** How often any payment was presented. */
  presentations: number;
  /** What presentations came to, and how often. */
  readonly codes: Map<string, number>;
}

/** All attackers together. */
export interface Attackers {
  readonly tallies: readonly AttackTally[];
  /** Accounts of attackers, in lower case. */
  readonly accounts: ReadonlySet<string>;
  /** Those of them whose calls always fail, so that they must never be charged. */
  readonly failing: ReadonlySet<string>;
  /** Payments that were answered as paid. */
  readonly sold: ReadonlySet<Signed>;
  /** Attacks until the signal, which ends calls under way, too; resolves with what failed in this program. */
  run(signal: AbortSignal): Promise<readonly unknown[]>;
}

/** How a payment is presented. */
interface How {
  /** It is signed by an account with funds, for what is sold. */
  readonly isFunded: boolean;
  readonly service?: string;
  readonly body?: object;
  /** The client's address; any of the attackers' when undefined. */
  readonly from?: string;
}

/** Client addresses that attackers come from. */
const CLIENTS = 40;
/** Copies of one payment whose funds moved away, by wave. */
const COPIES = 20;
const WAVES = 3;
const WAVE_PAUSE_MS = 1_500;
/** Copies of one pending payment at the facilitator, by wave: more than it lets wait. */
const FACILITATOR_COPIES = 20;
/** Payments that are presented at once, for a transaction over the provider's cap. */
const BURST = 12;
/** Accounts that delegate to one switch, and rounds of them until another switch is deployed. */
const SWITCHED = 16;
const SWITCH_ROUNDS = 3;
/** Latest time after a presentation at which an account changes, in milliseconds: its settlement may be mined by then. */
const LATEST_CHANGE_MS = 1_500;

/** By attack; none is more than two shared cores can serve beside the buyers. */
const PACES = {
  unfundedBurners: { perSecond: 10, maxAtOnce: 40 },
  fundedBurners: { perSecond: 0.5, maxAtOnce: 10 },
  delegating: { perSecond: 1, maxAtOnce: 40 },
  parityWallets: { perSecond: 0.5, maxAtOnce: 10 },
  switchWallets: { perSecond: 0.1, maxAtOnce: 2 },
  singleWallets: { perSecond: 0.3, maxAtOnce: 6 },
  unwelcome: { perSecond: 0.1, maxAtOnce: 10 },
  burst: { perSecond: 0.03, maxAtOnce: 2 },
  movedFunds: { perSecond: 0.25, maxAtOnce: 4 },
  unsupplied: { perSecond: 1, maxAtOnce: 10 },
  unanswered: { perSecond: 0.5, maxAtOnce: 20 },
  tooLarge: { perSecond: 0.5, maxAtOnce: 10 },
  faulty: { perSecond: 8, maxAtOnce: 10 },
  randomPayers: { perSecond: 4, maxAtOnce: 40 },
  facilitatorCopies: { perSecond: 0.2, maxAtOnce: 3 },
} as const satisfies Readonly<Record<string, Pace>>;

/** Makes the attackers. They present payments and change their own accounts; the provider's faults are the setup's. */
export function createAttackers(setup: Setup, random: Random): Attackers {
  const { terms, merchant, gateway, facilitator, chainUrl, burner } = setup;
  const merchantTerms = { ...terms, accepts: terms.accepts.map((option) => ({ ...option, payTo: merchant })) };
  const tallies: AttackTally[] = [];
  const accounts = new Set<string>();
  const failing = new Set<string>();
  const sold = new Set<Signed>();
  let signal = AbortSignal.abort();

  const begin = (name: string): AttackTally => {
    const tally = {
      name,
      fundedAccounts: 0,
      fundedPayments: 0,
      fundedPresentations: 0,
      presentations: 0,
      codes: new Map<string, number>(),
    };
    tallies.push(tally);
    return tally;
  };

  const account = async (tally: AttackTally, units: bigint): Promise<Payer> => {
    const payer = await setup.payer(units);
    accounts.add(payer.address.toLowerCase());
    if (units > 0n) tally.fundedAccounts++;
    return payer;
  };

  const failingAccount = async (tally: AttackTally, units: bigint): Promise<Payer> => {
    const payer = await account(tally, units);
    failing.add(payer.address.toLowerCase());
    return payer;
  };

  const client = (): string => `192.0.2.${random.whole(1, CLIENTS)}`;
  const count = (tally: AttackTally, code: string): void => {
    tally.codes.set(code, (tally.codes.get(code) ?? 0) + 1);
  };

  const show = async (tally: AttackTally, signed: Signed, how: How): Promise<string> => {
    const { isFunded, service = "eth", body = { method: "eth_gasPrice", params: [] }, from = client() } = how;
    tally.presentations++;
    if (isFunded) tally.fundedPresentations++;
    const { code } = await present(signed, { url: `${gateway.url}/v1/${service}`, body, client: from, signal });
    if (code === "SOLD") sold.add(signed);
    if (!signal.aborted) count(tally, code);
    return code;
  };

  const funded = async (tally: AttackTally, payer: Payer): Promise<Signed> => {
    tally.fundedPayments++;
    return sign(payer, terms);
  };

  const noSignature = (): `0x${string}` => `0x${randomBytes(64).toString("hex")}1b`;

  const unfundedBurners = begin("unfunded accounts whose code burns gas");
  const unfundedBurner = async (): Promise<void> => {
    const payer = await account(unfundedBurners, 0n);
    await delegateCode(chainUrl, payer.address, burner);
    const signed = await sign(payer, terms, random.next() < 0.5 ? { signature: noSignature() } : {});
    await show(unfundedBurners, signed, { isFunded: false });
  };

  const fundedBurners = begin("funded accounts whose code burns gas");
  const fundedBurner = async (): Promise<void> => {
    const payer = await account(fundedBurners, PRICE);
    await delegateCode(chainUrl, payer.address, burner);
    await show(fundedBurners, await funded(fundedBurners, payer), { isFunded: true });
  };

  const delegating = begin("accounts that delegate to such code after their verification");
  const delegate = async (): Promise<void> => {
    const payer = await account(delegating, PRICE);
    const signed = await funded(delegating, payer);
    const shown = show(delegating, signed, { isFunded: true });
    await sleep(random.whole(0, LATEST_CHANGE_MS), signal);
    await delegateCode(chainUrl, payer.address, burner);
    await shown;
    if (signal.aborted || random.next() < 0.5) return;
    await delegateCode(chainUrl, payer.address, undefined);
    await show(delegating, signed, { isFunded: true });
  };

  const parityWallets = begin("wallets that burn gas in blocks of one parity");
  const parityPayer = async (): Promise<void> => {
    const payer = await account(parityWallets, PRICE);
    await setCode(chainUrl, payer.address, parityWallet(random.next() < 0.5 ? "even" : "odd"));
    await show(parityWallets, await funded(parityWallets, payer), { isFunded: true });
  };

  /** Presents payments of accounts that run a switch's code, and turns it on before or after they are signed. */
  const switching = async (tally: AttackTally, code: SwitchWallet, payers: readonly Payer[]): Promise<void> => {
    const shown = payers.map(async (payer) => show(tally, await funded(tally, payer), { isFunded: true }));
    await sleep(random.whole(0, LATEST_CHANGE_MS), signal);
    await code.turn(true);
    await sleep(LATEST_CHANGE_MS, signal);
    await code.turn(false);
    await Promise.all(shown);
  };

  const switched = begin(`${SWITCHED} accounts that delegated to one switch`);
  let shared: { readonly wallet: SwitchWallet; rounds: number } | undefined;
  const switchPayers = async (): Promise<void> => {
    if (shared === undefined || shared.rounds >= SWITCH_ROUNDS)
      shared = { wallet: await deploySwitchWallet(chainUrl), rounds: 0 };
    shared.rounds++;
    const { wallet } = shared;
    const payers = await Promise.all(
      Array.from({ length: SWITCHED }, async () => {
        const payer = await account(switched, PRICE);
        await delegateCode(chainUrl, payer.address, wallet.wallet);
        return payer;
      }),
    );
    await switching(switched, wallet, payers);
  };

  const singles = begin("wallets with a switch, each of a code of its own");
  const singleWallet = async (): Promise<void> => {
    const wallet = await deploySwitchWallet(chainUrl);
    const payer = await account(singles, PRICE);
    await setCode(chainUrl, payer.address, wallet.code);
    await switching(singles, wallet, [payer]);
  };

  const unwelcome = begin("accounts whose transactions the provider refuses");
  const unwelcomePayer = async (): Promise<void> => {
    const payer = await account(unwelcome, PRICE);
    setup.unwelcome.add(payer.address.toLowerCase());
    await show(unwelcome, await funded(unwelcome, payer), { isFunded: true });
  };

  const bursts = begin("payments at once, for a transaction over the provider's cap");
  const burst = async (): Promise<void> => {
    const one = async (): Promise<void> => {
      const payer = await account(bursts, PRICE);
      await show(bursts, await funded(bursts, payer), { isFunded: true });
    };
    await Promise.all(Array.from({ length: BURST }, one));
  };

  const movedFunds = begin("copies of payments whose funds moved away");
  const moveFunds = async (): Promise<void> => {
    const payer = await account(movedFunds, PRICE);
    const signed = await funded(movedFunds, payer);
    const first = show(movedFunds, signed, { isFunded: true });
    await sleep(random.whole(0, LATEST_CHANGE_MS), signal);
    await setup.setBalance(payer.address, 0n);
    const copies: Promise<string>[] = [first];
    for (let wave = 0; wave < WAVES && !signal.aborted; wave++) {
      for (let at = 0; at < COPIES; at++) copies.push(show(movedFunds, signed, { isFunded: true }));
      await sleep(WAVE_PAUSE_MS, signal);
    }
    await Promise.all(copies);
  };

  /** Calls that fail, by one account, with a payment that is good again after each. */
  const failingCalls = (name: string, how: How): (() => Promise<void>) => {
    const tally = begin(name);
    let payer: Promise<Payer> | undefined;
    let signed: Promise<Signed> | undefined;
    return async () => {
      payer ??= failingAccount(tally, PRICE);
      const from = await payer;
      signed ??= how.isFunded ? funded(tally, from) : sign(from, terms);
      const payment = await signed;
      // Its window is over.
      if ((await show(tally, payment, how)) === "PAYMENT_EXPIRED" && payment === (await signed)) signed = undefined;
    };
  };
  const unsupplied = failingCalls("calls of a service without suppliers", { isFunded: false, service: "base" });
  const isFunded = true;
  const timingOut = begin("calls made to time out");
  let waiter: Promise<Payer> | undefined;
  const unanswered = async (): Promise<void> => {
    waiter ??= failingAccount(timingOut, PRICE * BigInt(PACES.unanswered.maxAtOnce));
    await show(timingOut, await funded(timingOut, await waiter), { isFunded, body: failingCall("unanswered") });
  };

  const tooLarge = failingCalls("calls whose answer is too large", { isFunded, body: failingCall("tooLarge") });
  // One address and one account, beyond what either has tokens for.
  const faulty = failingCalls("calls that the supplier fails", {
    isFunded,
    body: failingCall("faulty"),
    from: "203.0.113.1",
  });

  const randomPayers = begin("random payers");
  const randomPayer = async (): Promise<void> => {
    const payer = await account(randomPayers, 0n);
    await show(randomPayers, await sign(payer, terms, { signature: noSignature() }), { isFunded: false });
  };

  const facilitatorCopies = begin("copies of a pending payment at the facilitator");
  const copyAtFacilitator = async (): Promise<void> => {
    const payer = await account(facilitatorCopies, PRICE);
    facilitatorCopies.fundedPayments++;
    const signed = await sign(payer, merchantTerms);
    const ask = async (path: "settle" | "verify"): Promise<void> => {
      facilitatorCopies.presentations++;
      facilitatorCopies.fundedPresentations++;
      const { code } = await presentTo(`${facilitator.url}/${path}`, signed, { signal });
      if (path === "settle" && code === "SOLD") sold.add(signed);
      if (!signal.aborted) count(facilitatorCopies, `${path}: ${code}`);
    };
    const asked = [ask("settle")];
    await sleep(random.whole(0, LATEST_CHANGE_MS), signal);
    await setup.setBalance(payer.address, 0n);
    for (let wave = 0; wave < WAVES && !signal.aborted; wave++) {
      for (let at = 0; at < FACILITATOR_COPIES; at++) asked.push(ask("settle"), ask("verify"));
      await sleep(WAVE_PAUSE_MS, signal);
    }
    await Promise.all(asked);
  };

  const attacks: readonly (readonly [Pace, () => Promise<void>])[] = [
    [PACES.unfundedBurners, unfundedBurner],
    [PACES.fundedBurners, fundedBurner],
    [PACES.delegating, delegate],
    [PACES.parityWallets, parityPayer],
    [PACES.switchWallets, switchPayers],
    [PACES.singleWallets, singleWallet],
    [PACES.unwelcome, unwelcomePayer],
    [PACES.burst, burst],
    [PACES.movedFunds, moveFunds],
    [PACES.unsupplied, unsupplied],
    [PACES.unanswered, unanswered],
    [PACES.tooLarge, tooLarge],
    [PACES.faulty, faulty],
    [PACES.randomPayers, randomPayer],
    [PACES.facilitatorCopies, copyAtFacilitator],
  ];

  return {
    tallies,
    accounts,
    failing,
    sold,
    async run(until) {
      signal = until;
      const missed = await Promise.all(attacks.map(([pace, work]) => keepPace(pace, until, work)));
      return missed.flatMap(({ failed }) => failed);
    },
  };
}
