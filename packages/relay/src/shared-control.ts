import { type Bus, type Clock, isRecord, type Log, type ServiceId } from "@turnpike/base";
import type { RelayControl, RelayFlag, ServiceView } from "./types.ts";

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

const isName = (value: unknown): value is string =>
  typeof value === "string" && value.length > 0 && value.length <= MAX_NAME;

/**
 * A control whose changes reach every process of a deployment: drained suppliers and flags, which stay and which a process
 * that starts later learns too; resets of scores and clearing of caches, which are done once.
 */
export class SharedControl implements RelayControl, AsyncDisposable {
  readonly #options: SharedControlOptions;
  readonly #modules: SharedControlModules;
  readonly #settings = new Map<string, Setting>();
  readonly #unsubscribe: (() => void)[] = [];
  #refresh: NodeJS.Timeout | undefined;
  #asking: NodeJS.Timeout | undefined;
  #hasReceived = false;

  constructor(options: SharedControlOptions, modules: SharedControlModules) {
    this.#options = options;
    this.#modules = modules;
  }

  /** Begins to listen, and asks the others what was changed before this process was there. */
  start(): void {
    if (this.#refresh !== undefined) return;
    const { bus, control } = this.#modules;
    this.#unsubscribe.push(
      bus.subscribe(SETTINGS, (message) => this.#receive(message)),
      bus.subscribe(ASK, () => {
        if (this.#settings.size > 0) this.#publish([...this.#settings.values()]);
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
    this.#refresh = setInterval(() => {
      // A reload may have brought a supplier, or brought it back, that a setting is about.
      for (const setting of this.#settings.values()) this.#apply(setting);
      this.#publish([...this.#settings.values()]);
    }, this.#options.refreshMs);
    this.#refresh.unref();
    this.#ask(ASKS);
  }

  inspect(id?: ServiceId): readonly ServiceView[] {
    return this.#modules.control().inspect(id);
  }

  flags(): Readonly<Record<RelayFlag, boolean>> {
    return this.#modules.control().flags();
  }

  setDrained(service: ServiceId, operator: string, isDrained: boolean): boolean {
    return this.#set({ service, operator }, isDrained);
  }

  setFlag(flag: RelayFlag, isOn: boolean): void {
    this.#set({ flag }, isOn);
  }

  resetScore(service: ServiceId, operator: string): boolean {
    const { bus, control } = this.#modules;
    if (!control().resetScore(service, operator)) return false;
    bus.publish(RESET_SCORE, { service, operator });
    return true;
  }

  clearCache(service?: ServiceId): void {
    const { bus, control } = this.#modules;
    control().clearCache(service);
    bus.publish(CLEAR, service === undefined ? {} : { service });
  }

  #set(target: Setting["target"], isOn: boolean): boolean {
    const { bus, clock } = this.#modules;
    const known = this.#settings.get(JSON.stringify(target));
    // Above what is known, also when another machine's clock is ahead.
    const atMs = Math.max(clock.nowMs(), (known?.atMs ?? 0) + 1);
    const setting: Setting = { target, isOn, atMs, from: bus.id };
    if (!this.#apply(setting)) return false;
    this.#keep(setting);
    this.#publish([setting]);
    return true;
  }

  #apply({ target, isOn }: Setting): boolean {
    const control = this.#modules.control();
    if (!("flag" in target)) return control.setDrained(target.service, target.operator, isOn);
    control.setFlag(target.flag, isOn);
    return true;
  }

  /** True when it is newer than what is known. */
  #keep(setting: Setting): boolean {
    const key = JSON.stringify(setting.target);
    const known = this.#settings.get(key);
    if (known !== undefined && known.atMs > setting.atMs) return false;
    if (known !== undefined && known.atMs === setting.atMs && known.from >= setting.from) return false;
    if (known === undefined && this.#settings.size >= MAX_SETTINGS) return false;
    this.#settings.set(key, setting);
    return true;
  }

  /** Asks again for some seconds: the bus, or the other processes, may not have started yet. */
  #ask(left: number): void {
    if (this.#hasReceived || left === 0) return;
    this.#modules.bus.publish(ASK, {});
    this.#asking = setTimeout(() => this.#ask(left - 1), ASK_EVERY_MS);
    this.#asking.unref();
  }

  #publish(settings: readonly Setting[]): void {
    for (let at = 0; at < settings.length; at += IN_A_MESSAGE) {
      this.#modules.bus.publish(SETTINGS, { settings: settings.slice(at, at + IN_A_MESSAGE) });
    }
  }

  #receive(message: unknown): void {
    if (!isRecord(message) || !Array.isArray(message.settings) || message.settings.length > IN_A_MESSAGE) return;
    this.#hasReceived = true;
    for (const value of message.settings as readonly unknown[]) {
      const setting = this.#read(value);
      if (setting === undefined || !this.#keep(setting)) continue;
      this.#apply(setting);
      const { target, isOn, from } = setting;
      this.#modules.log.info({ ...target, isOn, from }, "an operator changed it elsewhere");
    }
  }

  #read(value: unknown): Setting | undefined {
    const { clock, control } = this.#modules;
    if (!isRecord(value) || typeof value.isOn !== "boolean" || !isName(value.from)) return undefined;
    const { atMs, isOn, from, target } = value;
    if (typeof atMs !== "number" || !(atMs >= 0 && atMs <= clock.nowMs() + MAX_AHEAD_MS) || !isRecord(target)) {
      return undefined;
    }
    const { flag, service, operator } = target;
    if (isName(flag)) {
      if (!Object.hasOwn(control().flags(), flag)) return undefined;
      return { target: { flag: flag as RelayFlag }, isOn, atMs, from };
    }
    if (!isName(service) || !isName(operator)) return undefined;
    return { target: { service: service as ServiceId, operator }, isOn, atMs, from };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#refresh);
    clearTimeout(this.#asking);
    for (const unsubscribe of this.#unsubscribe.splice(0)) unsubscribe();
  }
}
