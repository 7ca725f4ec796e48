/** Elements without content and end tag. */
export const VOID: ReadonlySet<string> = new Set(
  "area base basefont br col embed frame hr img input link meta param source track wbr".split(" "),
);

/** Elements whose end tag may be left out: how many are open says nothing about depth. */
export const LOOSE: ReadonlySet<string> = new Set(
  "p li dt dd tr td th thead tbody tfoot option optgroup rp rt html head body colgroup".split(" "),
);

/** Elements whose text is not read. */
export const SKIPPED: ReadonlySet<string> = new Set(
  "script style template noscript svg math iframe noembed noframes object canvas audio video select datalist button dialog".split(
    " ",
  ),
);

/** Elements that stand around a page's content. */
export const CHROME: ReadonlySet<string> = new Set(["nav", "aside", "footer", "menu"]);

/** Elements whose text is parted from what is beside them by a line's end. */
export const BLOCKS: ReadonlySet<string> = new Set(
  (
    "address article aside blockquote body br caption center dd details dialog div dl dt fieldset figcaption figure " +
    "footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li main menu nav ol optgroup option p pre section " +
    "summary table tbody tfoot thead title tr ul template noscript"
  ).split(" "),
);

/** Elements whose text is parted from what is beside them by a blank. */
export const CELLS: ReadonlySet<string> = new Set("td th img input label rt select button iframe svg".split(" "));
