import { packPublicKey } from "@turnpike/chain-client";
import type { signing } from "@turnpike/proto";
import type { Chance } from "@turnpike/testkit/chance";
import { bend, field, nested, varint } from "./hostile-bytes.ts";
import { bytesOf, FEE, GAS, Hand, SECOND, type TxWorld } from "./hostile-hand.ts";
import { hostileCoin, randomAny } from "./hostile-messages.ts";

const EXEC = new TextEncoder().encode("/cosmos.authz.v1beta1.MsgExec");
const MULTISIG = new TextEncoder().encode("/cosmos.crypto.multisig.LegacyAminoPubKey");
const REMEMBERED = 100;

/** Makes hostile transactions, each of another kind. */
export class HostileTxs {
  readonly #chance: Chance;
  readonly #world: TxWorld;
  readonly #sent: Uint8Array[] = [];

  constructor(world: TxWorld, modules: { readonly chance: Chance }) {
    this.#world = world;
    this.#chance = modules.chance;
  }

  /** The next one, with the name of its kind. */
  next(): { readonly kind: string; readonly bytes: Uint8Array } {
    const kind = this.#chance.weighted(KINDS);
    const bytes = MAKERS[kind](this.#hand());
    if (this.#sent.length < REMEMBERED) this.#sent.push(bytes);
    else this.#sent[this.#chance.below(REMEMBERED)] = bytes;
    return { kind, bytes };
  }

  #hand(): Hand {
    const chance = this.#chance;
    const attacker = chance.pick(this.#world.attackers);
    const world = { ...this.#world, addresses: [attacker.signer.address, ...this.#world.addresses] as const };
    const own = attacker.signer.address;
    // The attacker's own address stands often enough, so that a signature fits the message.
    return new Hand(chance, { ...world, addresses: [own, own, own, ...world.addresses] }, attacker, this.#sent);
  }
}

function nestedExec(hand: Hand): Uint8Array {
  const { chance, attacker } = hand;
  const grantee = field(1, Buffer.from(attacker.signer.address));
  const depth = chance.pick([100, 101, 300, 1_500]);
  const { typeUrl, value } = hand.send();
  const core = Buffer.concat([field(1, Buffer.from(typeUrl)), field(2, value)]);
  // Each level: an Any of a MsgExec, whose field 2 is the Any before.
  const any = nested(depth, core, (length) => {
    const head = Buffer.concat([grantee, varint(18n), varint(BigInt(length))]);
    return [field(1, EXEC), Buffer.concat([varint(18n), varint(BigInt(length + head.length))]), head];
  });
  return bytesOf(hand.seal(Buffer.concat([field(1, any), hand.body({})]), hand.auth()));
}

function nestedKeys(hand: Hand): Uint8Array {
  const depth = hand.chance.pick([16, 100, 1_000]);
  const key = nested(depth, field(1, MULTISIG), (length) => {
    const head = Buffer.concat([varint(8n), varint(1n), varint(18n), varint(BigInt(length))]);
    return [field(1, MULTISIG), Buffer.concat([varint(18n), varint(BigInt(length + head.length))]), head];
  });
  const mode = nested(depth, field(1, Uint8Array.of(8, 1)), (length) => {
    const inner = Buffer.concat([varint(18n), varint(BigInt(length))]);
    return [Buffer.concat([varint(18n), varint(BigInt(length + inner.length))]), inner];
  });
  const info = Buffer.concat([field(1, key), field(2, mode)]);
  const fee = hand.auth({ signerInfos: [] });
  return bytesOf(hand.seal(hand.body({ messages: [hand.send()] }), Buffer.concat([field(1, info), fee])));
}

function nestedGroups(hand: Hand): Uint8Array {
  const depth = hand.chance.pick([100, 10_000, 100_000]);
  const groups = Buffer.concat([
    Buffer.alloc(depth, 0x3b),
    hand.chance.often(0.5) ? Buffer.alloc(depth, 0x3c) : Buffer.alloc(0),
  ]);
  if (hand.chance.often(0.5)) return groups;
  return bytesOf(hand.seal(Buffer.concat([hand.body({ messages: [hand.send()] }), groups]), hand.auth()));
}

function badSignature(hand: Hand): Uint8Array {
  const { chance } = hand;
  const raw = hand.seal(hand.body({ messages: [hand.send()] }), hand.auth());
  const [good = new Uint8Array(64)] = raw.signatures;
  const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
  const s = order - BigInt(`0x${Buffer.from(good.subarray(32)).toString("hex")}`);
  const high = Buffer.concat([good.subarray(0, 32), Buffer.from(s.toString(16).padStart(64, "0"), "hex")]);
  const choices: [Uint8Array[], ...Uint8Array[][]] = [
    [high],
    [],
    [chance.bytes(64)],
    [new Uint8Array(64)],
    [Buffer.alloc(64, 255)],
    [Buffer.concat([good, Uint8Array.of(0)])],
    [good.subarray(1)],
    [good, good],
    Array.from({ length: 500 }, () => good),
    [chance.bytes(100_000)],
  ];
  const signatures = chance.pick(choices);
  return bytesOf({ ...raw, signatures });
}

function badTimeout(hand: Hand): Uint8Array {
  const { chance, world } = hand;
  const seconds = chance.pick([
    0n,
    -1n,
    2n ** 63n - 1n,
    -(2n ** 63n),
    world.nowNanos() / SECOND + chance.pick([-5n, 601n, 10n ** 9n]),
  ]);
  const timeoutTimestamp = { seconds, nanos: chance.pick([0, -1, 1_000_000_000, 2_147_483_647, -2_147_483_648]) };
  const unordered = chance.often(0.8);
  return hand.signed({
    messages: [hand.send()],
    timeoutTimestamp,
    unordered,
    timeoutHeight: chance.often(0.5) ? 0n : chance.wide(),
  });
}

function badFee(hand: Hand): Uint8Array {
  const { chance, world } = hand;
  const amount = Array.from({ length: chance.pick([0, 1, 2, 1_000]) }, () => hostileCoin(chance));
  const payers = chance.often(0.4)
    ? { payer: chance.pick(world.addresses), granter: chance.pick(world.addresses) }
    : {};
  const gasLimit = chance.often(0.5) ? GAS : chance.wide();
  return hand.signed({ messages: [hand.send()] }, { fee: { amount, gasLimit, ...payers } });
}

const MAKERS = {
  noise: ({ chance }: Hand) => chance.bytes(chance.pick([0, 1, 5, 40, 300, 5_000])),
  "any-message": (hand: Hand) =>
    hand.signed({
      messages: Array.from({ length: 1 + hand.chance.below(2) }, () => randomAny(hand.chance, hand.world)),
    }),
  "fails-late": (hand: Hand) => hand.signed({ messages: [hand.send(1n), hand.send(10n ** 17n)] }),
  "bent-outside": (hand: Hand) => bend(hand.chance, hand.signed({ messages: [randomAny(hand.chance, hand.world)] })),
  "bent-and-signed": (hand: Hand) => {
    const message = hand.chance.often(0.5) ? hand.send() : randomAny(hand.chance, hand.world);
    const [body, auth] = [hand.body({ messages: [message] }), hand.auth()];
    return bytesOf(
      hand.chance.often(0.7) ? hand.seal(bend(hand.chance, body), auth) : hand.seal(body, bend(hand.chance, auth)),
    );
  },
  "nested-exec": nestedExec,
  "nested-keys": nestedKeys,
  "nested-groups": nestedGroups,
  "thousand-messages": (hand: Hand) => hand.signed({ messages: Array.from({ length: 1_000 }, () => hand.send()) }),
  "long-memo": (hand: Hand) =>
    hand.signed({ messages: [hand.send()], memo: "m".repeat(hand.chance.pick([257, 9_000, 700_000])) }),
  signature: badSignature,
  "chain-id": (hand: Hand) =>
    hand.signed({ messages: [hand.send()] }, undefined, hand.chance.pick(["", "other", "x".repeat(60)])),
  replayed: (hand: Hand) => hand.sent[hand.chance.below(hand.sent.length)] ?? hand.signed({ messages: [hand.send()] }),
  timeout: badTimeout,
  gas: (hand: Hand) =>
    hand.signed(
      { messages: [hand.send()] },
      {
        fee: { amount: FEE, gasLimit: hand.chance.pick([0n, 1n, 50_000n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n]) },
      },
    ),
  fee: badFee,
  sequence: (hand: Hand) => {
    const publicKey = packPublicKey(hand.attacker.signer.publicKey);
    const modeInfo = { sum: { case: "single", value: { mode: hand.chance.below(200) as signing.SignMode } } } as const;
    const sequence = hand.chance.wide();
    const auth = { signerInfos: [{ publicKey, modeInfo, sequence }], fee: { amount: FEE, gasLimit: GAS } };
    return hand.signed({ messages: [hand.send()], unordered: hand.chance.often(0.3) }, auth);
  },
} satisfies Record<string, (hand: Hand) => Uint8Array>;

type Kind = keyof typeof MAKERS;

const KINDS: readonly (readonly [weight: number, kind: Kind])[] = [
  [8, "noise"],
  [24, "any-message"],
  [6, "fails-late"],
  [12, "bent-outside"],
  [16, "bent-and-signed"],
  [3, "nested-exec"],
  [2, "nested-keys"],
  [2, "nested-groups"],
  [1, "thousand-messages"],
  [1, "long-memo"],
  [6, "signature"],
  [2, "chain-id"],
  [4, "replayed"],
  [4, "timeout"],
  [3, "gas"],
  [4, "fee"],
  [2, "sequence"],
];
