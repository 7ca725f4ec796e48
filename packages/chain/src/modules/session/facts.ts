import type { AccountAddress } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import type { application, proof, session, shared, tokenomics } from "@turnpike/proto";
import {
  activeApplicationConfigs,
  isApplicationActive,
  type SessionHeader,
  type SessionWindows,
  type SettlementSharedParams,
  sessionWindows,
} from "@turnpike/protocol";
import { type Context, unmetered } from "../../state/context.ts";
import type { Parsed } from "../../state/parsed.ts";
import { upokt } from "../../state/stakes.ts";
import { getApplication } from "../application/state.ts";
import { getProofParams } from "../proof/state.ts";
import { getComputeUnitsPerRelayAt, getDifficultyAt, getService } from "../service/state.ts";
import { getSharedParamsAt, protocolParams } from "../shared/state.ts";
import { getActiveServiceConfig } from "../supplier/state.ts";
import { getTokenomicsParams } from "../tokenomics/state.ts";
import { pastApplications, pastOwners, pastProofParams, pastTokenomicsParams } from "./history.ts";
import { getBlockHash } from "./state.ts";

/** Gas of reading a supplier's usual configurations for a service: five of some 1,000 bytes. */
const FREE_CONFIGS_GAS = 25_000n;
/** Gas of reading a few earlier records of an application: some 1,000 bytes. */
const FREE_VERSIONS_GAS = 3_000n;

type Header = Omit<SessionHeader, "sessionId"> | session.SessionHeader;

/**
 * Facts of a session: what was true in it, by its header alone. Claims, proofs and settlement read what belongs to a session
 * here, so that nothing that anybody does later changes what its relays earn. Each method says which height decides;
 * docs/chain-sessions.md has them all in one table. Where nothing is recorded, as in a state that an earlier version wrote,
 * today's record counts.
 *
 * Nothing is remembered between calls: each costs the gas of what the real chain reads for it.
 */
export class SessionFacts {
  readonly #ctx: Context;
  readonly #free: Context;
  readonly #header: Header;

  constructor(ctx: Context, header: Header) {
    this.#ctx = ctx;
    this.#free = unmetered(ctx);
    this.#header = header;
  }

  /** Shared parameters that lay out the session's windows: of its last height. */
  windowParams(): SettlementSharedParams {
    return protocolParams(getSharedParamsAt(this.#ctx, this.#header.sessionEndBlockHeight));
  }

  windows(): SessionWindows {
    return sessionWindows(this.windowParams(), this.#header.sessionEndBlockHeight);
  }

  /** Shared parameters that price the session's claims: of its first height. */
  pricing(): SettlementSharedParams {
    return protocolParams(getSharedParamsAt(this.#ctx, this.#header.sessionStartBlockHeight));
  }

  /** Target of the service's difficulty at the session's first height. */
  targetHash(): Bytes {
    const { serviceId, sessionStartBlockHeight } = this.#header;
    return getDifficultyAt(this.#ctx, serviceId, sessionStartBlockHeight).targetHash;
  }

  /** Compute units of a relay at the session's first height; undefined when there is no such service. */
  computeUnitsPerRelay(): bigint | undefined {
    const { serviceId, sessionStartBlockHeight } = this.#header;
    return getComputeUnitsPerRelayAt(this.#ctx, serviceId, sessionStartBlockHeight);
  }

  /** Owner of the service after the session's first block; undefined when there is no such service. */
  serviceOwner(): AccountAddress | undefined {
    const { serviceId, sessionStartBlockHeight } = this.#header;
    const today = (): AccountAddress | undefined => getService(this.#free, serviceId)?.ownerAddress;
    return pastOwners.at(this.#free, serviceId, sessionStartBlockHeight, today);
  }

  /** Hash of the block before the proof window opens: the seed of requirement and path. */
  proofSeedBlockHash(): Bytes {
    return getBlockHash(this.#ctx, this.windows().proofOpenHeight - 1n);
  }

  /** Parameters of proofs after that block: a supplier learns with its hash what it has to prove. */
  proofParams(): proof.Params {
    const today = getProofParams(this.#ctx);
    const height = sessionWindows(
      protocolParams(getSharedParamsAt(this.#free, this.#header.sessionEndBlockHeight)),
      this.#header.sessionEndBlockHeight,
    ).proofOpenHeight;
    return pastProofParams.at(this.#free, "", height - 1n, () => today) ?? today;
  }

  /** Parameters of settlement after the session's first block. */
  tokenomicsParams(): Parsed<tokenomics.Params> {
    const today = getTokenomicsParams(this.#ctx);
    return pastTokenomicsParams.at(this.#free, "", this.#header.sessionStartBlockHeight, () => today) ?? today;
  }

  /** Shares of a supplier's rewards: of the configuration that the session drew it by, which held in all of it. */
  revenueShares(operatorAddress: string): readonly Parsed<shared.ServiceRevenueShare>[] {
    const { serviceId, sessionStartBlockHeight } = this.#header;
    const config = getActiveServiceConfig(this.#free, { operatorAddress, serviceId, height: sessionStartBlockHeight });
    return config?.service?.revShare ?? [];
  }

  /**
   * Number of receivers of a supplier's rewards. The real chain does not read its configurations for a claim, so that the usual ones
   * cost no gas; there may be several of 64 KiB.
   */
  countReceivers(operatorAddress: string): number {
    const { serviceId, sessionStartBlockHeight } = this.#header;
    const walk = unmetered(this.#ctx);
    const config = getActiveServiceConfig(walk, { operatorAddress, serviceId, height: sessionStartBlockHeight });
    if (walk.gas.used > FREE_CONFIGS_GAS) this.#ctx.gas.consume(walk.gas.used - FREE_CONFIGS_GAS, "ValuePerByte");
    return config?.service?.revShare.length ?? 0;
  }

  /** Services that the application was staked for at the session's first height: it had a session for each. */
  numServices(): bigint {
    const app = getApplication(this.#free, this.#header.applicationAddress);
    if (app === undefined) return 1n;
    const { serviceConfigs, serviceConfigHistory } = app;
    const start = this.#header.sessionStartBlockHeight;
    return BigInt(Math.max(1, activeApplicationConfigs(serviceConfigs, serviceConfigHistory, start).length));
  }

  /** The application's record after the session's last block, or now while it is under way; undefined when there was none. */
  application(): application.Application | undefined {
    return this.#versions().at(-1);
  }

  /** True when the application was staked after one of the session's blocks: one that is staked later is not in it. */
  wasApplicationStaked(): boolean {
    return this.#versions().length > 0;
  }

  /** True when the application could be in the session at one of its blocks: later changes have no effect on it. */
  wasApplicationActive(): boolean {
    return this.#versions().some((version) => isApplicationActive(version, this.#header.sessionEndBlockHeight));
  }

  /**
   * Maximum that the application pays for the session, to all suppliers together; undefined for no limit. It is the highest
   * limit in the state after any of its blocks: a supplier reads it at one of these.
   */
  spendLimitUpokt(): bigint | undefined {
    let highest = 0n;
    for (const { perSessionSpendLimit } of this.#versions()) {
      const limit = BigInt(perSessionSpendLimit?.amount ?? "0");
      if (limit === 0n) return undefined;
      if (limit > highest) highest = limit;
    }
    return highest === 0n ? undefined : highest;
  }

  /**
   * An application's record as its session shows it: as it is now while the session is under way, then with what was true in
   * it, so that who reads it late knows the members of its ring and its spend limit. Stake and services are today's.
   */
  shownApplication(today: application.Application): application.Application {
    const record = this.application();
    if (record === undefined || this.#ctx.block.heightBlocks <= this.#header.sessionEndBlockHeight) return today;
    const { delegateeGatewayAddresses, pendingUndelegations, unstakeSessionEndHeight, pendingTransfer } = record;
    const limit = this.spendLimitUpokt();
    return {
      ...today,
      delegateeGatewayAddresses,
      pendingUndelegations,
      unstakeSessionEndHeight,
      pendingTransfer,
      perSessionSpendLimit: limit === undefined ? undefined : upokt(limit),
    };
  }

  /**
   * Records of the application after the blocks of the session, the oldest first: today's last while it is under way. The real
   * chain keeps none, so that the usual few of them cost no gas; an application may change in every block.
   */
  #versions(): application.Application[] {
    const { applicationAddress: address, sessionStartBlockHeight: first, sessionEndBlockHeight: last } = this.#header;
    const today = (): application.Application | undefined => getApplication(this.#free, address);
    const walk = unmetered(this.#ctx);
    const versions = pastApplications.between(walk, address, first, last, today);
    if (walk.gas.used > FREE_VERSIONS_GAS) this.#ctx.gas.consume(walk.gas.used - FREE_VERSIONS_GAS, "ValuePerByte");
    return versions;
  }
}
