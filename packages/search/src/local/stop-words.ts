import { fold } from "./words.ts";

const of = (words: string): ReadonlySet<string> => new Set(words.split(" ").map(fold));

/**
 * Words that say little by themselves, by language, folded as the index folds them. They are indexed, and phrases find
 * them; in a query beside other words they only help to order what those found.
 */
export const STOP_WORDS: Readonly<Record<string, ReadonlySet<string>>> = {
  en: of(
    "a about after all also am an and any are as at be been being but by can could did do does doing don for from get gets had has have having he her here hers him his how i if in into is it its itself just let ll m may me might more most must my no not of off on once one only or other our out over own please re s same shall she should so some such t than that the their them then there these they this those through to too under until up upon us ve very was way we were what when where which while who whom whose why will with would you your tell show explain find give want know happens mean means",
  ),
  de: of(
    "aber als am an auch auf aus bei bin bis da damit dann das dass dem den der des die dies diese dieser dieses doch du durch ein eine einem einen einer eines er es fur gibt haben hat hier ich ihr im in ist ja kann kein keine konnen man mehr mein mit muss nach nicht noch nur ob oder ohne sein sich sie sind so uber um und unter uns vom von vor wann war warum was wenn wer werden wie wieso wir wird wo woher zu zum zur",
  ),
  fr: of(
    "a ai alors au aux avec ce ces cet cette comme comment d dans de des du elle elles en est et etre eu faire fait faut il ils j je l la le les leur leurs lors lui m ma mais me mes mon n ne nos notre nous on ont ou par pas peut plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se ses si son sont sur t ta te tes toi ton tu un une va vos votre vous y",
  ),
  es: of(
    "a al ante como con cual cuales cuando cuanto de del desde donde dos el ella ellas ellos en entre era es esa ese eso esta estan este esto fue ha hacer han hasta hay la las le les lo los mas me mi mis muy no nos o para pero por porque puede que quien quienes se ser si sin sobre son su sus te tiene tu un una uno unos y ya yo",
  ),
  it: of(
    "a ad agli ai al alla alle allo anche che chi ci come con cosa da dal dalla dalle dei del della delle dello di dove e ed era gli ha hai hanno i il in io l la le lo loro ma mi mio ne nei nel nella nelle non o per perche piu puo quale quali quando quanto quello questa queste questi questo se si sono su sua sul sulla suo tra tu un una uno vi",
  ),
  pt: of(
    "a ao aos as com como da das de dela dele do dos e ela ele eles em entre era essa esse esta este eu foi ha isso isto ja lhe mais mas me meu minha muito na nao nas no nos o onde os ou para pela pelas pelo pelos por porque qual quais quando que quem sao se sem ser seu seus so sua suas tambem te tem um uma voce",
  ),
  nl: of(
    "aan al als bij dat de den der deze die dit doen door dan een en er geen had heb hebben heeft hem het hij hoe ik in is je kan kunnen maar me meer met mij mijn moet na naar niet nog nu of om omdat onder ons ook op over te tegen toch tot u uit van veel voor waar waarom wanneer was wat we wel werd wie wij wil worden wordt zal ze zich zij zijn zo zonder zou",
  ),
  sv: of(
    "alla att av blir blev da de den denna deras dess det detta dig din ditt du dar ej eller en er ett fran for ha hade han har henne hennes hon honom hur i icke ingen inom inte jag ju kan man med mellan men mig min mitt mot mycket nar ni nu nagon nagot och om oss pa sa samma sedan sig sin sina sitt sjalv som till under upp ut utan vad var varfor vara vart vem vi vid vilka vilken vilket",
  ),
  da: of(
    "af alle at bliver da de dem den denne der deres det dette dig din du efter eller en end er et for fra ham han har have her hun hvad hvem hver hvilke hvor hvordan hvorfor i ikke ind jeg kan man med meget men mig min mod nar ned nu og ogsa om op os over pa sa sig sin som til ud var vi vil",
  ),
  no: of(
    "at av ble bli da de dem den denne der deres det dette din du eller en er et ett for fra ha hadde han har hun hva hvem hver hvilke hvor hvordan hvorfor i ikke jeg kan man med meg men mot nar na og ogsa om opp oss over pa sa seg sin skal som til ut var vi vil",
  ),
  fi: of(
    "ei en etta han he ja jo joka jos kanssa kuin kuinka kuka me mika mika miksi milloin mina missa miten mutta myos ne niin nyt olla on oli ovat se seka sen sina tai tama te vai voi",
  ),
  pl: of(
    "a aby albo ale ani az bardzo bez bo by byc byl co czy dla do gdy gdzie go i ich ile im ja jak jaka jaki jako je jego jej jest jestem juz kiedy kto ktora ktore ktory lub ma mi mnie moze na nad nie niz o od on ona one oni oraz po pod przez przy sa sie skad tak to tu tylko ty w we wiec z za ze",
  ),
  ro: of(
    "a ai al ale am ar are as au ca care ce cel cu cum cand da dar de despre din dupa ea ei el este eu fi fost iar ii il in intre isi la le lor lui mai mea meu ne nu o pe pentru prin sa sau se si sunt tu un una unde unei unui va",
  ),
  ru: of(
    "а без более бы был была были было быть в вам вас весь во вот все всего вы где да даже для до его ее если есть еще же за зачем здесь и из или им их к как какая какие какой когда кто ли мне может мы на над надо наш не него нее нет ни них но ну о об он она они от очень по под почему при с сколько со так также там то того тоже только тот ты у уже чего чем что чтобы эта эти это этот я",
  ),
  uk: of(
    "а або але би був була були було бути в ви від він вона вони де для до є же за з і й із її його коли ми на над не ні но о про при що щоб як яка який які та так також там те то ти у це цей ця чи чому я",
  ),
  tr: of(
    "acaba ama bana ben beni bir biz bu cok da daha de degil diye en gibi hangi hem hep her icin ile ise kac kadar kim ki mi mu nasil ne neden nerede nicin o olan olarak ya siz su ve veya",
  ),
  ar: of(
    "في من على الى إلى عن ما ماذا هل كيف لماذا متى اين أين هذا هذه ذلك التي الذي هو هي او أو و ثم لا لم لن ان أن إن كان كل مع",
  ),
  ja: of(
    "です ます する した して いる ある から まで には では とは ため どう なぜ 何が 何を 何で とう って った のか すか うす どの のよ よう ように です ての んで",
  ),
  zh: of("如何 怎么 什么 怎样 为什 么是 是什 哪些 可以 一个 我们 的是 怎麼 什麼 為什"),
};

/** True when the word says little in one of the languages. */
export function isStopWord(folded: string, languages: readonly string[]): boolean {
  return languages.some((language) => STOP_WORDS[language]?.has(folded) === true);
}
