import { generateKeyPairSync, sign } from "node:crypto";

const tagged = (tag: number, ...parts: readonly Uint8Array[]): Buffer => {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 128 ? [length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
};
const sequence = (...parts: readonly Uint8Array[]): Buffer => tagged(0x30, ...parts);
const octets = (...bytes: readonly number[]): Buffer => Buffer.from(bytes);

/** ecdsa-with-SHA256. */
const ALGORITHM = sequence(tagged(0x06, octets(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02)));
const COMMON_NAME = tagged(0x06, octets(0x55, 0x04, 0x03));
const ALTERNATIVE_NAMES = tagged(0x06, octets(0x55, 0x1d, 0x11));
const DNS_NAME = 0x82;

/** A key and a certificate (X.509) for a host name, signed by itself, as PEM. */
export function selfSigned(host: string): { readonly key: string; readonly cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const name = sequence(tagged(0x31, sequence(COMMON_NAME, tagged(0x0c, Buffer.from(host)))));
  const names = sequence(tagged(DNS_NAME, Buffer.from(host)));
  const time = (text: string): Buffer => tagged(0x17, Buffer.from(text));
  const body = sequence(
    tagged(0xa0, tagged(0x02, octets(2))),
    tagged(0x02, octets(1)),
    ALGORITHM,
    name,
    sequence(time("200101000000Z"), time("491231235959Z")),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    tagged(0xa3, sequence(sequence(ALTERNATIVE_NAMES, tagged(0x04, names)))),
  );
  const signature = tagged(0x03, octets(0), sign("sha256", body, privateKey));
  const der = sequence(body, ALGORITHM, signature).toString("base64");
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${der.replace(/(.{64})/g, "$1\n")}\n-----END CERTIFICATE-----\n`,
  };
}
