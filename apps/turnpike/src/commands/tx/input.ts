import { readFile, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { AppError, base64ToBytes, isRecord } from "@turnpike/base";
import { type Amount, type ChainClient, parseAmounts } from "@turnpike/chain-client";
import { moduleAddress } from "@turnpike/crypto";
import {
  type Any,
  AnySchema,
  authz,
  createMessage,
  fromApiJson,
  packAny,
  service,
  session,
  upgrade,
} from "@turnpike/proto";
import { type ChainClientFlags, findKey, keyAddresses } from "../../wiring/chain-client.ts";
import {
  type ApplicationStakeFile,
  applicationStakeFile,
  gatewayStakeFile,
  type SupplierStakeFile,
  serviceEditsFile,
  supplierStakeFile,
} from "./stake-files.ts";
import { MAX_STAKE_FILE_BYTES, parseYaml, type YamlValue } from "./yaml.ts";

/** A coin as messages have it. */
export interface CoinFields {
  readonly denom: string;
  readonly amount: string;
}

/** What a command was called with. */
export interface TxCall {
  /** Address that signs. */
  readonly from: string;
  readonly args: readonly string[];
  readonly flags: Readonly<Record<string, unknown>>;
}

// The SDK's programs write Go's zero time where a plan has none.
const NO_TIME = { seconds: -62_135_596_800n, nanos: 0 };
const MAX_CARD_BYTES = 262_144;
const MAX_JSON_BYTES = 4_194_304;

const coinFields = ({ denom, amount }: Amount): CoinFields => ({ denom, amount: amount.toString() });
const usage = (message: string): AppError => new AppError("USAGE", { message });

async function readBounded(file: string, maxBytes: number): Promise<Uint8Array> {
  const sizeBytes = await stat(file).then(
    (found) => found.size,
    () => undefined,
  );
  if (sizeBytes === undefined) throw usage(`${file} cannot be read.`);
  if (sizeBytes > maxBytes) throw usage(`${file} is longer than ${maxBytes} bytes.`);
  return readFile(file);
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Reads the arguments, flags and files of a command into what messages are made of. */
export class TxInput {
  readonly from: string;
  readonly args: readonly string[];
  readonly #flags: Readonly<Record<string, unknown>>;
  readonly #places: ChainClientFlags;
  readonly #client: ChainClient | undefined;
  #yaml: Promise<YamlValue> | undefined;

  /** @param client undefined with --offline */
  constructor({ from, args, flags }: TxCall, places: ChainClientFlags, client: ChainClient | undefined) {
    this.from = from;
    this.args = args;
    this.#flags = flags;
    this.#places = places;
    this.#client = client;
  }

  /** A flag's text; undefined when it was not given. */
  text(flag: string): string | undefined {
    const value = this.#flags[flag];
    return typeof value === "string" ? value : undefined;
  }

  /** A whole number. @throws AppError USAGE */
  whole(text: string, what: string): bigint {
    if (/^\d{1,19}$/.test(text)) return BigInt(text);
    throw usage(`${what}: expected a whole number, not ${JSON.stringify(text)}.`);
  }

  /** Coins: `1000upokt`, more with commas between them. @throws AppError USAGE */
  coins(text = ""): CoinFields[] {
    return parseAmounts(text).map(coinFields);
  }

  /** One coin. @throws AppError USAGE */
  coin(text = ""): CoinFields {
    const [one, more] = this.coins(text);
    if (one === undefined || more !== undefined) throw usage(`${JSON.stringify(text)}: expected one amount.`);
    return one;
  }

  /** What each of so many receives and what that is together; with --split of the amount in all. @throws AppError USAGE */
  shares(text: string | undefined, receivers: number): { readonly each: CoinFields[]; readonly all: CoinFields[] } {
    if (receivers === 0) throw usage("Name the recipients, and last the amount.");
    const count = BigInt(receivers);
    const amounts = parseAmounts(text ?? "").map(({ denom, amount }) => ({
      denom,
      amount: this.#flags.split === true ? amount / count : amount,
    }));
    return {
      each: amounts.map(coinFields),
      all: amounts.map(({ denom, amount }) => coinFields({ denom, amount: amount * count })),
    };
  }

  /** An address, or that of a key's name. What begins as an address is left to the chain to judge. @throws AppError USAGE */
  async address(text = ""): Promise<string> {
    return text.startsWith("pokt1") ? text : (await findKey(text, this.#places)).address;
  }

  /** Bytes of a text in base64. @throws AppError USAGE */
  bytes(text: string | undefined, what: string): Uint8Array {
    const bytes = base64ToBytes(text ?? "");
    if (bytes === undefined) throw usage(`${what}: expected base64.`);
    return bytes;
  }

  async #stakeFile(): Promise<YamlValue> {
    const file = this.text("config") ?? "";
    const read = async (): Promise<YamlValue> => {
      const text = Buffer.from(await readBounded(file, MAX_STAKE_FILE_BYTES)).toString("utf8");
      return parseYaml(file, text, await keyAddresses(this.#places));
    };
    this.#yaml ??= read();
    return this.#yaml;
  }

  /** @throws AppError CONFIG_INVALID, USAGE */
  async applicationStake(): Promise<
    Omit<ApplicationStakeFile, "stake" | "perSessionSpendLimit"> & {
      readonly stake: CoinFields;
      readonly perSessionSpendLimit?: CoinFields;
    }
  > {
    const { stake, perSessionSpendLimit: limit, ...rest } = applicationStakeFile(await this.#stakeFile());
    const limited = limit === undefined ? {} : { perSessionSpendLimit: coinFields(limit) };
    return { ...rest, stake: coinFields(stake), ...limited };
  }

  /** @throws AppError CONFIG_INVALID, USAGE */
  async gatewayStake(): Promise<CoinFields> {
    return coinFields(gatewayStakeFile(await this.#stakeFile()));
  }

  /** @throws AppError CONFIG_INVALID, USAGE */
  async supplierStake(): Promise<Omit<SupplierStakeFile, "stake"> & { readonly stake?: CoinFields }> {
    const { stake, ...rest } = supplierStakeFile(await this.#stakeFile());
    return { ...rest, ...(stake === undefined ? {} : { stake: coinFields(stake) }) };
  }

  /** The services of the file that are not yet as it says, by their names on the chain. */
  async serviceChanges(): Promise<
    readonly {
      readonly id: string;
      readonly name: string;
      readonly units: bigint;
      readonly card: Uint8Array | undefined;
    }[]
  > {
    const file = await this.#stakeFile();
    const client = this.#client;
    if (client === undefined) throw usage("edit-service asks the node for names and owners; leave --offline out.");
    const changes = await Promise.all(
      serviceEditsFile(file).map(async ({ serviceId: id, computeUnitsPerRelay: units, cardFile }) => {
        const { service: found } = await client.ask(service.Query.method.service, { id });
        if (found?.ownerAddress !== this.from) {
          throw usage(`${id} belongs to ${found?.ownerAddress ?? "nobody"}, not to ${this.from}; sign as its owner.`);
        }
        const card = cardFile === undefined ? undefined : await this.#cardOf(resolve(dirname(file.file), cardFile));
        const isSame = card === undefined || Buffer.from(found.metadata?.card ?? []).equals(card);
        return found.computeUnitsPerRelay === units && isSame ? [] : [{ id, name: found.name, units, card }];
      }),
    );
    return changes.flat();
  }

  async #cardOf(file: string): Promise<Uint8Array> {
    return this.#checkCard(await readBounded(file, MAX_CARD_BYTES), file);
  }

  #checkCard(card: Uint8Array, where: string): Uint8Array {
    if (card.length === 0) throw usage(`${where} is empty.`);
    if (this.#flags.skipCardValidation === true || isRecord(parsedJson(Buffer.from(card).toString("utf8"))))
      return card;
    throw usage(`${where} is no JSON object; fix it, or send it as it is with --skip-card-validation.`);
  }

  /** The card that --card-file or --card-base64 names. @throws AppError USAGE */
  async card(): Promise<Uint8Array | undefined> {
    const file = this.text("cardFile");
    const text = this.text("cardBase64");
    if (file !== undefined && text !== undefined) throw usage("Give --card-file or --card-base64, not both.");
    if (file !== undefined) return this.#cardOf(file);
    return text === undefined ? undefined : this.#checkCard(this.bytes(text, "--card-base64"), "--card-base64");
  }

  /** The same, where there must be one. @throws AppError USAGE */
  async neededCard(): Promise<Uint8Array> {
    const card = await this.card();
    if (card === undefined) throw usage("Name the card with --card-file or --card-base64.");
    return card;
  }

  /** A session's header: JSON, base64 of it, or a file of it. @throws AppError USAGE */
  async sessionHeader(text = ""): Promise<session.SessionHeader> {
    const decoded = base64ToBytes(text);
    const inner = decoded === undefined ? undefined : parsedJson(Buffer.from(decoded).toString("utf8"));
    const given = parsedJson(text) ?? inner ?? parsedJson(await this.#fileText(text));
    // `query session get-session` puts it under these names.
    const found = isRecord(given) && isRecord(given.session) ? given.session.header : given;
    const read = fromApiJson(session.SessionHeaderSchema, found);
    if (read.ok && isRecord(found)) return read.message;
    throw usage(`The session header cannot be read: ${read.ok ? "expected an object" : read.fault}.`);
  }

  async #fileText(file: string): Promise<string> {
    return Buffer.from(await readBounded(file, MAX_JSON_BYTES)).toString("utf8");
  }

  /** Messages of a file: one, a list, or a transaction with them. @throws AppError USAGE */
  async messages(file = ""): Promise<Any[]> {
    const given = parsedJson(await this.#fileText(file));
    const body = isRecord(given) && isRecord(given.body) ? given.body : given;
    const list: unknown = isRecord(body) && Array.isArray(body.messages) ? body.messages : body;
    const items: readonly unknown[] = Array.isArray(list) ? list : [list];
    if (items.length === 0) throw usage(`${file} holds no messages.`);
    return items.map((item, at) => {
      if (!isRecord(item) || typeof item["@type"] !== "string") {
        throw usage(`${file}: message ${at}: expected an object with an @type.`);
      }
      const read = fromApiJson(AnySchema, item);
      if (!read.ok) throw usage(`${file}: message ${at}: ${read.fault}.`);
      return read.message;
    });
  }

  /** An upgrade that the flags describe, as a message of the authority, in the name of who signs. @throws AppError USAGE */
  upgradePlan(name = ""): Any {
    const height = this.whole(this.text("upgradeHeight") ?? "", "--upgrade-height");
    const plan = { name, time: NO_TIME, height, info: this.text("upgradeInfo") ?? "" };
    const fields = { authority: moduleAddress("gov"), plan };
    return packAny(upgrade.MsgSoftwareUpgradeSchema, createMessage(upgrade.MsgSoftwareUpgradeSchema, fields));
  }

  /** Takes the planned upgrade back, in the same way. */
  upgradeCancel(): Any {
    const fields = { authority: moduleAddress("gov") };
    return packAny(upgrade.MsgCancelUpgradeSchema, createMessage(upgrade.MsgCancelUpgradeSchema, fields));
  }

  /** A grant without limits, of the message of --msg-type. @throws AppError USAGE */
  genericAuthorization(kind = ""): Any {
    if (kind !== "generic") throw usage(`The authorization ${JSON.stringify(kind)} is not known; expected generic.`);
    const fields = { msg: this.text("msgType") ?? "" };
    return packAny(authz.GenericAuthorizationSchema, createMessage(authz.GenericAuthorizationSchema, fields));
  }
}
