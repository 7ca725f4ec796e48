import { type Bus, type Clock, isRecord, type Log, type ServiceId } from "@turnpike/base";
import type { RelayControl, RelayFlag } from "./types.ts";

/** A {@link RelayControl} whose changes reach every process of a deployment. */
export interface SharedControl extends RelayControl, AsyncDisposable {
  /** Begins to listen, and asks the others what was changed before this process was there. */
  start(): void;
}

export interface SharedControlModules {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly log: Log;
  /** The control of this process' relay; a reload replaces it. */
  readonly control: () => RelayControl;
}

export interface SharedControlOptions {
  /** All changes are published again after this time: a message may have been lost. */
  readonly refreshMs: number;
}

/** The last change of one thing that an operator may set. Of two the later one counts; of equal times the one of the higher id. */
interface Setting {
  readonly target: { readonly flag: RelayFlag } | { readonly service: ServiceId; readonly operator: string };
  readonly isOn: boolean;
  readonly atMs: number;
  readonly from: string;
}

const SETTINGS = "control.settings";
const ASK = "control.ask";
/** Its name in the version before: gateways of both may share a bus. */
const RESET_SCORE = "control.forgive";
const CLEAR = "control.clear";
const MAX_SETTINGS = 10_000;
/** Some 300 bytes each at most. */
const IN_A_MESSAGE = 100;
const ASKS = 6;
const ASK_EVERY_MS = 1_000;
const MAX_NAME = 256;
/** A time further ahead than this is a peer's fault, and would stand above all that is set here. */
const MAX_AHEAD_MS = 3_600_000;

const keyOf = ({ target }: Setting): string => JSON.stringify(target);
const isName = (value: unknown): value is string =>
  typeof value === "string" && value.length > 0 && value.length <= MAX_NAME;

/**
 * Shares what an operator changes through one process with all others: drained suppliers and flags, which stay and which a
 * process that starts later learns too; resets of scores and clearing of caches, which are done once.
 */
export function createSharedControl(opts: SharedControlOptions, modules: SharedControlModules): SharedControl {
  const { bus, clock, log, control } = modules;
  const settings = new Map<string, Setting>();
  const ends: (() => void)[] = [];
  let timer: NodeJS.Timeout | undefined;
  let asking: NodeJS.Timeout | undefined;
  let hasHeard = false;

  const read = (value: unknown): Setting | undefined => {
    if (!isRecord(value) || typeof value.isOn !== "boolean" || !isName(value.from)) return undefined;
    const { atMs, isOn, from, target } = value;
    if (typeof atMs !== "number" || !(atMs >= 0 && atMs <= clock.nowMs() + MAX_AHEAD_MS) || !isRecord(target)) {
      return undefined;
    }
    const { flag, service, operator } = target;
    if (isName(flag)) return Object.hasOwn(control().flags(), flag) ? { ...flagOf(flag), isOn, atMs, from } : undefined;
    if (!isName(service) || !isName(operator)) return undefined;
    return { target: { service: service as ServiceId, operator }, isOn, atMs, from };
  };

  const apply = ({ target, isOn }: Setting): boolean => {
    if (!("flag" in target)) return control().setDrained(target.service, target.operator, isOn);
    control().setFlag(target.flag, isOn);
    return true;
  };

  /** True when it is newer than what is known. */
  const keep = (setting: Setting): boolean => {
    const key = keyOf(setting);
    const known = settings.get(key);
    if (known !== undefined && known.atMs > setting.atMs) return false;
    if (known !== undefined && known.atMs === setting.atMs && known.from >= setting.from) return false;
    if (known === undefined && settings.size >= MAX_SETTINGS) return false;
    settings.set(key, setting);
    return true;
  };

  /** Asks again for some seconds: the bus, or the other processes, may not have started yet. */
  const ask = (left: number): void => {
    if (hasHeard || left === 0) return;
    bus.publish(ASK, {});
    asking = setTimeout(ask, ASK_EVERY_MS, left - 1);
    asking.unref();
  };

  const publish = (some: readonly Setting[]): void => {
    for (let at = 0; at < some.length; at += IN_A_MESSAGE) {
      bus.publish(SETTINGS, { settings: some.slice(at, at + IN_A_MESSAGE) });
    }
  };

  const receive = (message: unknown): void => {
    if (!isRecord(message) || !Array.isArray(message.settings) || message.settings.length > IN_A_MESSAGE) return;
    hasHeard = true;
    for (const value of message.settings as readonly unknown[]) {
      const setting = read(value);
      if (setting === undefined || !keep(setting)) continue;
      apply(setting);
      log.info({ ...setting.target, isOn: setting.isOn, from: setting.from }, "an operator changed it elsewhere");
    }
  };

  const set = (target: Setting["target"], isOn: boolean): boolean => {
    const known = settings.get(JSON.stringify(target));
    // Above what is known, also when another machine's clock is ahead.
    const atMs = Math.max(clock.nowMs(), (known?.atMs ?? 0) + 1);
    const setting: Setting = { target, isOn, atMs, from: bus.id };
    if (!apply(setting)) return false;
    keep(setting);
    publish([setting]);
    return true;
  };

  return {
    inspect: (id) => control().inspect(id),
    flags: () => control().flags(),
    setDrained: (service, operator, isDrained) => set({ service, operator }, isDrained),
    setFlag: (flag, isOn) => void set({ flag }, isOn),
    resetScore(service, operator) {
      if (!control().resetScore(service, operator)) return false;
      bus.publish(RESET_SCORE, { service, operator });
      return true;
    },
    clearCache(service) {
      control().clearCache(service);
      bus.publish(CLEAR, service === undefined ? {} : { service });
    },
    start() {
      if (timer !== undefined) return;
      ends.push(
        bus.subscribe(SETTINGS, receive),
        bus.subscribe(ASK, () => {
          if (settings.size > 0) publish([...settings.values()]);
          else bus.publish(SETTINGS, { settings: [] });
        }),
        bus.subscribe(RESET_SCORE, (message) => {
          if (!isRecord(message) || !isName(message.service) || !isName(message.operator)) return;
          control().resetScore(message.service as ServiceId, message.operator);
        }),
        bus.subscribe(CLEAR, (message) => {
          if (!isRecord(message)) return;
          if (isName(message.service)) control().clearCache(message.service as ServiceId);
          else if (message.service === undefined) control().clearCache();
        }),
      );
      timer = setInterval(() => {
        // A reload may have brought a supplier, or brought it back, that a setting is about.
        for (const setting of settings.values()) apply(setting);
        publish([...settings.values()]);
      }, opts.refreshMs);
      timer.unref();
      ask(ASKS);
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      clearTimeout(asking);
      for (const end of ends.splice(0)) end();
    },
  };
}

const flagOf = (flag: string): Pick<Setting, "target"> => ({ target: { flag: flag as RelayFlag } });
