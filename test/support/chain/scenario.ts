import assert from "node:assert/strict";
import { moduleAddress } from "@turnpike/crypto";
import { application, authz, bank, gateway, proof, service, session, shared, supplier } from "@turnpike/proto";
import { BASE_TARGET, nextSessionStartHeight, type SessionWindows, sessionWindows } from "@turnpike/protocol";
import { makeRelay, RelayLedger } from "@turnpike/testkit/chain-relays";
import type { BlockFeed, FeedEvent, FeedTx } from "./block-feed.ts";
import { type Party, party, QUICK_PROFILE } from "./local-chain.ts";
import type { ModuleFees } from "./money.ts";
import { msg, type Strangers } from "./strangers.ts";

/** The service that the scenario adds, and what a relay of it counts. */
export const SERVICE = { id: "scenario", computeUnitsPerRelay: 101n } as const;
/** Relays of the supplier that proves, of the one that proves nothing, and of the one whose relays a stranger signed. */
export const RELAYS = { proven: 13, unproven: 5, forged: 3 } as const;
/** Stakes in upokt. */
export const STAKES = { application: 1_000_000_007n, gateway: 3_000_003n, supplier: 5_000_009n } as const;
/** Lost by who owes a proof. */
export const PENALTY_UPOKT = 1_000_000n;
const ADD_SERVICE_UPOKT = 1_000_000_000n;

const NAMES = ["owner", "app", "heir", "gateway", "proven-owner", "proven", "unproven", "forged", "stranger"] as const;

/** Who acts, by role. */
export type Actors = Readonly<Record<(typeof NAMES)[number] | "faucet" | "dao", Party>>;

/** Everybody of the scenario. */
export const ACTORS: Actors = {
  ...(Object.fromEntries(NAMES.map((name) => [name, party(`scenario ${name}`)])) as Actors),
  faucet: party("faucet"),
  dao: party("dao"),
};

const coin = (amount: bigint) => ({ denom: "upokt", amount: `${amount}` });

/** The suppliers of the session. */
const WORKERS = ["proven", "unproven", "forged"] as const;
type Worker = (typeof WORKERS)[number];

/** The newest height of some transactions. */
export function newestOf(txs: readonly FeedTx[]): bigint {
  let newest = 0n;
  for (const { heightBlocks } of txs) if (heightBlocks > newest) newest = heightBlocks;
  return newest;
}

/** A life of a service from its first transaction to the last, as strangers live it over a node's doors. */
export class Scenario {
  readonly #feed: BlockFeed;
  readonly #strangers: Strangers;
  readonly #fees: { readonly module: keyof ModuleFees; readonly heightBlocks: bigint; readonly upokt: bigint }[] = [];
  readonly ledgers = new Map<Worker, RelayLedger>();
  header: session.SessionHeader | undefined;

  constructor(modules: { readonly feed: BlockFeed; readonly strangers: Strangers }) {
    this.#feed = modules.feed;
    this.#strangers = modules.strangers;
  }

  /** What modules took by a height, beside stakes. */
  feesAt(heightBlocks: bigint): ModuleFees {
    const of = (module: keyof ModuleFees): bigint =>
      this.#fees
        .filter((fee) => fee.module === module && fee.heightBlocks <= heightBlocks)
        .reduce((sum, { upokt }) => sum + upokt, 0n);
    return { supplier: of("supplier"), service: of("service"), proof: of("proof") };
  }

  /** Gives everybody coins, adds the service, stakes all actors, delegates, and asks for a proof of every claim. */
  async settleIn(): Promise<bigint> {
    const { faucet, dao, owner, app, gateway: gatewayParty } = ACTORS;
    const toAddresses = NAMES.map((name) => ACTORS[name].address);
    const sends = toAddresses.map((toAddress) =>
      msg(bank.MsgSendSchema, { fromAddress: faucet.address, toAddress, amount: [coin(2_000_000_000n)] }),
    );
    await this.#strangers.submit(faucet, ...sends);
    const { id, computeUnitsPerRelay } = SERVICE;
    const [added] = await Promise.all([
      this.#strangers.submit(
        owner,
        msg(service.MsgAddServiceSchema, {
          ownerAddress: owner.address,
          service: { id, name: "A service of a stranger", computeUnitsPerRelay, ownerAddress: owner.address },
        }),
      ),
      this.#strangers.submit(
        gatewayParty,
        msg(gateway.MsgStakeGatewaySchema, { address: gatewayParty.address, stake: coin(STAKES.gateway) }),
      ),
      this.#strangers.submit(
        app,
        msg(application.MsgStakeApplicationSchema, {
          address: app.address,
          stake: coin(STAKES.application),
          services: [{ serviceId: id }],
        }),
      ),
      this.#strangers.submit(dao, this.#everyClaimNeedsProof()),
    ]);
    this.#fees.push({ module: "service", heightBlocks: added.heightBlocks, upokt: ADD_SERVICE_UPOKT });
    const delegating = msg(application.MsgDelegateToGatewaySchema, {
      appAddress: app.address,
      gatewayAddress: gatewayParty.address,
    });
    const last = await Promise.all([
      this.#strangers.submit(app, delegating),
      ...WORKERS.map((worker) => this.#stakeSupplier(worker)),
    ]);
    return nextSessionStartHeight(QUICK_PROFILE.shared, newestOf(last));
  }

  #everyClaimNeedsProof() {
    const change = msg(proof.MsgUpdateParamSchema, {
      authority: moduleAddress("gov"),
      name: "proof_request_probability",
      asType: { case: "asFloat", value: 1 },
    });
    return msg(authz.MsgExecSchema, { grantee: ACTORS.dao.address, msgs: [change] });
  }

  async #stakeSupplier(worker: Worker): Promise<FeedTx> {
    const operator = ACTORS[worker];
    const owner = worker === "proven" ? ACTORS["proven-owner"] : operator;
    const revShare =
      worker === "proven"
        ? [
            { address: owner.address, revSharePercentage: 60n },
            { address: operator.address, revSharePercentage: 40n },
          ]
        : [{ address: operator.address, revSharePercentage: 100n }];
    const endpoints = [{ url: "http://127.0.0.1:3", rpcType: shared.RPCType.JSON_RPC }];
    const staked = await this.#strangers.submit(
      operator,
      msg(supplier.MsgStakeSupplierSchema, {
        signer: operator.address,
        ownerAddress: owner.address,
        operatorAddress: operator.address,
        stake: coin(STAKES.supplier),
        services: [{ serviceId: SERVICE.id, endpoints, revShare }],
      }),
    );
    this.#fees.push({ module: "supplier", heightBlocks: staked.heightBlocks, upokt: 1n });
    return staked;
  }

  /** Asks for the session that begins at a height, in every way that there is, and makes its relays. */
  async relay(startHeightBlocks: bigint): Promise<session.Session> {
    await this.#feed.reach(startHeightBlocks);
    const { address: applicationAddress } = ACTORS.app;
    const request = { applicationAddress, serviceId: SERVICE.id, blockHeight: startHeightBlocks };
    const query = new URLSearchParams({
      application_address: applicationAddress,
      service_id: SERVICE.id,
      block_height: `${startHeightBlocks}`,
    });
    const found = await this.#strangers.askEverywhere(
      session.Query.method.getSession,
      request,
      `/pokt-network/poktroll/session/get_session?${query.toString()}`,
      startHeightBlocks,
    );
    const header = found.session?.header;
    assert.ok(found.session && header);
    this.header = header;
    const { app, gateway: gatewayParty, stranger } = ACTORS;
    const ring = await Promise.all([app, gatewayParty].map(({ address }) => this.#strangers.publicKeyOf(address)));
    for (const worker of WORKERS) {
      const ledger = new RelayLedger(header);
      for (let i = 0; i < RELAYS[worker]; i++) {
        const relay = makeRelay(
          {
            header,
            ring: worker === "forged" ? [stranger.publicKey, gatewayParty.publicKey] : ring,
            askerKey: (i % 2 === 0 ? gatewayParty : worker === "forged" ? stranger : app).privateKey,
            supplierOperatorAddress: ACTORS[worker].address,
            supplierKey: ACTORS[worker].privateKey,
          },
          `relay ${i}`,
        );
        ledger.add(relay, BASE_TARGET, SERVICE.computeUnitsPerRelay);
      }
      this.ledgers.set(worker, ledger);
    }
    return found.session;
  }

  /** Heights of the session's windows. */
  get windows(): SessionWindows {
    const { header } = this;
    assert.ok(header);
    return sessionWindows(QUICK_PROFILE.shared, header.sessionStartBlockHeight);
  }

  /** Claims for all suppliers as soon as the window is open. */
  async claim(): Promise<readonly FeedTx[]> {
    const { header } = this;
    assert.ok(header);
    const sends = await this.#prepared(WORKERS);
    await this.#feed.reach(this.windows.claimOpenHeight - 1n);
    return Promise.all(
      sends.map(({ worker, ledger, send }) =>
        send(
          msg(proof.MsgCreateClaimSchema, {
            supplierOperatorAddress: ACTORS[worker].address,
            sessionHeader: header,
            rootHash: ledger.root(),
          }),
        ),
      ),
    );
  }

  /** Proves what the suppliers claimed, but for the one that proves nothing. */
  async prove(): Promise<readonly FeedTx[]> {
    const { header } = this;
    assert.ok(header);
    const sends = await this.#prepared(["proven", "forged"]);
    const { hash } = await this.#feed.reach(this.windows.proofOpenHeight - 1n);
    return Promise.all(
      sends.map(async ({ worker, ledger, send }) => {
        const submitted = await send(
          msg(proof.MsgSubmitProofSchema, {
            supplierOperatorAddress: ACTORS[worker].address,
            sessionHeader: header,
            proof: ledger.proof(hash),
          }),
        );
        this.#fees.push({ module: "proof", heightBlocks: submitted.heightBlocks, upokt: 1n });
        return submitted;
      }),
    );
  }

  #prepared(workers: readonly Worker[]) {
    return Promise.all(
      workers.map(async (worker) => {
        const ledger = this.ledgers.get(worker);
        assert.ok(ledger);
        return { worker, ledger, send: await this.#strangers.prepare(ACTORS[worker]) };
      }),
    );
  }

  /** The event that a block of a height has of a supplier. */
  async eventOf(type: string, worker: Worker, heightBlocks: bigint): Promise<FeedEvent> {
    const { events } = await this.#feed.reach(heightBlocks);
    const found = events.filter((event) => {
      const { address } = ACTORS[worker];
      return (
        event.type === type &&
        event.attributes.some(({ key, value }) => key.startsWith("supplier_operator_addr") && value === `"${address}"`)
      );
    });
    assert.equal(found.length, 1, `${type} of ${worker} at ${heightBlocks}`);
    return found[0] ?? assert.fail();
  }

  /** The suppliers and the gateway leave, and the application is handed over, and then leaves. */
  async leave(): Promise<Readonly<Record<"proven-owner" | "unproven" | "gateway" | "heir", bigint>>> {
    const { app, heir, gateway: gatewayParty, proven, unproven } = ACTORS;
    const unstake = (signer: Party): Promise<FeedTx> =>
      this.#strangers.submit(
        signer,
        msg(supplier.MsgUnstakeSupplierSchema, { signer: signer.address, operatorAddress: signer.address }),
      );
    await Promise.all([
      unstake(proven),
      unstake(unproven),
      this.#strangers.submit(gatewayParty, msg(gateway.MsgUnstakeGatewaySchema, { address: gatewayParty.address })),
      this.#strangers.submit(
        app,
        msg(application.MsgTransferApplicationSchema, {
          sourceAddress: app.address,
          destinationAddress: heir.address,
        }),
      ),
    ]);
    const ended = (type: string, who: Party): Promise<bigint> =>
      this.#feed
        .event(type, (event) => event.attributes.some(({ value }) => value.includes(who.address)))
        .then(({ block }) => block.heightBlocks);
    await ended("pocket.application.EventTransferEnd", heir);
    await this.#strangers.submit(heir, msg(application.MsgUnstakeApplicationSchema, { address: heir.address }));
    const [provenEnd, unprovenEnd, gatewayEnd, heirEnd] = await Promise.all([
      ended("pocket.supplier.EventSupplierUnbondingEnd", proven),
      ended("pocket.supplier.EventSupplierUnbondingEnd", unproven),
      ended("pocket.gateway.EventGatewayUnbondingEnd", gatewayParty),
      ended("pocket.application.EventApplicationUnbondingEnd", heir),
    ]);
    return { "proven-owner": provenEnd, unproven: unprovenEnd, gateway: gatewayEnd, heir: heirEnd };
  }
}
