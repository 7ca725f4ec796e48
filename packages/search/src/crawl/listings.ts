import { Parser } from "htmlparser2";
import { decode } from "../fetching/decoding.ts";

/** Deepest nesting of a sitemap or feed that is read. */
const MAX_NESTING = 32;
/** Longest address in a list; a longer one is not taken. */
const MAX_TEXT = 2_048;
/** Largest list that cannot be read piece by piece (JSON, gzip), in bytes. */
const MAX_HELD_BYTES = 16_777_216;
/** Largest list that is read, decompressed, in bytes: what the sitemap protocol allows. */
export const MAX_LISTING_BYTES = 52_428_800;

/** Takes one address of a list; true when no more are wanted. */
export type TakeListed = (url: string, isListing: boolean) => boolean;

/** Addresses of elements: their own name, below their parent's. */
const PAGE_TEXTS: ReadonlySet<string> = new Set(["url/loc", "item/link"]);

/** Reads XML: sitemaps, their indexes, RSS and Atom. Entities that a document declares are never expanded. */
class XmlList {
  readonly #take: TakeListed;
  readonly #decoder: TextDecoder;
  readonly #parser: Parser;
  readonly #path: string[] = [];
  #text = "";
  #link = { href: "", rel: "" };
  #guid = { text: "", isLink: true };
  #hasLink = false;
  #isOver = false;

  constructor(charset: string, take: TakeListed) {
    this.#take = take;
    this.#decoder = decoderOf(charset);
    const options = { xmlMode: true, decodeEntities: true };
    this.#parser = new Parser(
      {
        onopentagname: (name) => this.#open(name),
        onattribute: (name, value) => this.#attribute(name, value),
        ontext: (text) => {
          if (this.#text.length <= MAX_TEXT) this.#text += text;
        },
        onclosetag: (name) => this.#close(name),
      },
      options,
    );
  }

  write(piece: Uint8Array): boolean {
    if (!this.#isOver) this.#parser.write(this.#decoder.decode(piece, { stream: true }));
    return this.#isOver;
  }

  end(): void {
    if (!this.#isOver) this.#parser.end(this.#decoder.decode());
  }

  #open(name: string): void {
    this.#path.push(name);
    this.#text = "";
    if (name === "link") this.#link = { href: "", rel: "" };
    if (name === "guid") this.#guid = { text: "", isLink: true };
    if (name === "item") this.#hasLink = false;
    if (this.#path.length > MAX_NESTING) this.#isOver = true;
  }

  #attribute(name: string, value: string): void {
    const at = this.#path.at(-1);
    if (at === "link" && name === "href") this.#link.href = value;
    if (at === "link" && name === "rel") this.#link.rel = value;
    if (at === "guid" && name === "isPermaLink") this.#guid.isLink = value !== "false";
  }

  #close(name: string): void {
    const place = `${this.#path.at(-2) ?? ""}/${name}`;
    if (PAGE_TEXTS.has(place)) {
      this.#hasLink = this.#found(this.#text, false) || this.#hasLink;
    } else if (place === "sitemap/loc") this.#found(this.#text, true);
    else if (place === "entry/link" && (this.#link.rel === "" || this.#link.rel === "alternate")) {
      this.#found(this.#link.href, false);
    } else if (place === "item/guid") this.#guid.text = this.#guid.isLink ? this.#text : "";
    else if (name === "item") {
      if (!this.#hasLink && /^https?:/i.test(this.#guid.text.trim())) this.#found(this.#guid.text, false);
      this.#guid = { text: "", isLink: true };
    }
    this.#path.pop();
    this.#text = "";
  }

  #found(text: string, isListing: boolean): boolean {
    const url = text.trim();
    if (url === "" || url.length > MAX_TEXT || this.#isOver) return false;
    this.#isOver = this.#take(url, isListing);
    return true;
  }
}

/** Reads a text sitemap: one address a line. */
class TextList {
  readonly #take: TakeListed;
  readonly #decoder = new TextDecoder();
  #rest = "";
  #isOver = false;

  constructor(take: TakeListed) {
    this.#take = take;
  }

  write(piece: Uint8Array): boolean {
    const lines = (this.#rest + this.#decoder.decode(piece, { stream: true })).split(/\r\n|\r|\n/);
    this.#rest = (lines.pop() ?? "").slice(0, MAX_TEXT + 1);
    for (const line of lines) this.#line(line);
    return this.#isOver;
  }

  end(): void {
    this.#line(this.#rest);
  }

  #line(line: string): void {
    const url = line.trim();
    if (!this.#isOver && /^https?:/i.test(url) && url.length <= MAX_TEXT) this.#isOver = this.#take(url, false);
  }
}

/** Holds what cannot be read piece by piece. */
class Held {
  readonly #use: (body: Uint8Array) => Promise<void> | void;
  readonly #pieces: Uint8Array[] = [];
  #bytes = 0;

  constructor(use: (body: Uint8Array) => Promise<void> | void) {
    this.#use = use;
  }

  write(piece: Uint8Array): boolean {
    this.#pieces.push(piece);
    this.#bytes += piece.length;
    return this.#bytes > MAX_HELD_BYTES;
  }

  async end(): Promise<void> {
    if (this.#bytes <= MAX_HELD_BYTES) await this.#use(Buffer.concat(this.#pieces));
  }
}

interface ListForm {
  write(piece: Uint8Array): boolean;
  end(): Promise<void> | void;
}

/**
 * Reads a list of addresses while it arrives: sitemap, sitemap index, either of them in gzip, text sitemap, RSS, Atom
 * or JSON feed. Its first bytes decide which it is.
 */
export class ListingReader {
  readonly #take: TakeListed;
  #form: ListForm | undefined;
  #head = Buffer.alloc(0);
  #found = 0;

  constructor(take: TakeListed) {
    this.#take = (url, isListing) => {
      this.#found++;
      return take(url, isListing);
    };
  }

  /** Addresses found so far. */
  get found(): number {
    return this.#found;
  }

  /** Takes the next piece; true when no more are wanted. */
  write(piece: Uint8Array): boolean {
    if (this.#form !== undefined) return this.#form.write(piece);
    this.#head = Buffer.concat([this.#head, piece]);
    if (this.#head.length < 256) return false;
    return this.#begin();
  }

  /** Reads what is left. */
  async end(): Promise<void> {
    if (this.#form === undefined) this.#begin();
    await this.#form?.end();
  }

  #begin(): boolean {
    const head = this.#head;
    this.#form = this.#formOf(head);
    this.#head = Buffer.alloc(0);
    return this.#form.write(head);
  }

  #formOf(head: Buffer): ListForm {
    if (head[0] === 0x1f && head[1] === 0x8b) return new Held((body) => this.#unpack(body));
    if ((head[0] === 0xff && head[1] === 0xfe) || (head[0] === 0xfe && head[1] === 0xff)) {
      return new XmlList(head[0] === 0xff ? "utf-16le" : "utf-16be", this.#take);
    }
    const text = head
      .toString("latin1")
      .replace(/^\xef\xbb\xbf/, "")
      .trimStart();
    if (text.startsWith("{")) return new Held((body) => this.#readJson(body));
    if (!text.startsWith("<")) return new TextList(this.#take);
    return new XmlList(/^<\?xml[^>]*encoding\s*=\s*["']([\w.:-]{1,40})["']/i.exec(text)?.[1] ?? "utf-8", this.#take);
  }

  async #unpack(body: Uint8Array): Promise<void> {
    const inner = new ListingReader(this.#take);
    let bytes = 0;
    try {
      for await (const piece of decode(onePiece(body), "gzip")) {
        bytes += piece.length;
        // Nothing that is packed twice, and nothing that is larger than the protocol allows.
        if (bytes > MAX_LISTING_BYTES || (bytes === piece.length && piece[0] === 0x1f)) return;
        if (inner.write(piece)) return;
      }
    } catch {
      // Cut short or broken: what was read until there counts.
    }
    await inner.end();
  }

  #readJson(body: Uint8Array): void {
    for (const url of jsonFeedUrls(new TextDecoder().decode(body))) if (this.#take(url, false)) return;
  }
}

async function* onePiece(body: Uint8Array): AsyncGenerator<Uint8Array> {
  yield body;
}

function decoderOf(charset: string): TextDecoder {
  try {
    return new TextDecoder(charset);
  } catch {
    return new TextDecoder();
  }
}

/** The pages of a JSON Feed (jsonfeed.org, 1 and 1.1); none when it is no such feed. */
function jsonFeedUrls(text: string): readonly string[] {
  try {
    const feed: unknown = JSON.parse(text);
    const items = typeof feed === "object" && feed !== null && "items" in feed ? feed.items : [];
    if (!Array.isArray(items)) return [];
    return items.flatMap((item: unknown) => {
      const url = typeof item === "object" && item !== null && "url" in item ? item.url : undefined;
      return typeof url === "string" && url.length <= MAX_TEXT ? [url] : [];
    });
  } catch {
    return [];
  }
}
