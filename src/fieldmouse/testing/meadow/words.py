"""Vocabulary of the synthetic web's pages, by topic, with natural word frequencies.

Text is drawn by Zipf's law from common words and from the words of a topic, so that a search for a topic's
word finds and ranks the pages about it. Paragraphs are made once for the whole meadow; pages choose among
them.
"""

from __future__ import annotations

import numpy as np

COMMON = (
    "the of and to in a is that it was for on are as with they be at one have this from by had not "
    "but what all were when we there can an your which their said if will each about how up out them "
    "then many some so these would other into has more two like him see time could no make than "
    "first been its who now people my made over did down only way find use may water long little "
    "very after words called just where most know get through back much before go good new write our "
    "used me man too any day same right look think also around another came come work three word "
    "must because does part even place well such here take why things help put years different away "
    "again off went old number great tell men say small every found still between name should home "
    "big give air line set own under read last never us left end along while might next sound below "
    "saw something thought both few those always looked show large often together asked house world "
    "going want"
).split()

TOPICS = {
    "meadows": "grass clover buttercup hay mowing pasture orchid fescue sward scythe turf daisy",
    "mice": "mouse vole shrew burrow nest whisker seed forage tail litter hazel dormouse",
    "birds": "lark finch wren plover feather migration song roost clutch fledge kestrel owl",
    "insects": "bee beetle moth cricket wing pollen larva swarm antenna dragonfly nectar hive",
    "rivers": "stream current ford bank delta trout reed flood spring tributary eddy weir",
    "woods": "oak beech birch canopy bark root timber fern moss coppice hazelnut glade",
    "weather": "rain frost cloud thunder breeze drizzle fog barometer forecast hail sunshine drought",
    "stars": "orbit comet nebula telescope eclipse galaxy meteor planet zodiac horizon lunar aurora",
    "cooking": "flour butter oven recipe dough simmer garlic saucepan thyme roast broth pepper",
    "gardens": "compost spade hedge tulip rose prune seedling trellis mulch greenhouse lawn bulb",
    "railways": "locomotive station signal platform carriage gauge siding timetable steam freight ticket",
    "ships": "harbour mast anchor keel lighthouse cargo tide rudder captain voyage compass rope",
    "music": "melody violin chord rhythm chorus organ tempo ballad fiddle concert harmony flute",
    "history": "castle treaty parish charter abbey siege crown guild manor chronicle medieval ruin",
    "mathematics": "theorem proof integer matrix prime lemma geometry algebra vector limit topology queue",
    "machines": "engine piston lever gear valve lathe turbine crank bearing spindle boiler pump",
    "books": "novel chapter library binding printer poem author margin folio index manuscript preface",
    "maps": "contour meridian atlas survey latitude scale boundary legend summit trail compass footpath",
    "chess": "bishop knight gambit pawn rook endgame castling opening tempo sacrifice checkmate queen",
    "textiles": "wool loom thread dye linen needle spinning weave stitch cotton shuttle tapestry",
}
NAMES = tuple(TOPICS)
TOPIC_WORDS = tuple(tuple(words.split()) for words in TOPICS.values())
ALL_TOPIC_WORDS = tuple(word for words in TOPIC_WORDS for word in words)
#: Number of paragraphs per topic.
PER_TOPIC = 32

_ONSETS = "b br c cl d dr f fl g gr h j k l m n p pl qu r s st t tr v w".split()
_RHYMES = "a al an ar el en er ib il in ind ir ol on or os ul um un ur".split()


def rare_words(count: int) -> list[str]:
    """Made-up words for the long tail of the vocabulary: proper names, places, jargon.

    >>> rare_words(3)
    ['balba', 'branba', 'carba']
    """
    onsets, rhymes = len(_ONSETS), len(_RHYMES)
    made = []
    for k in range(count):
        a, b, c = k % onsets, k // onsets % onsets, k // onsets**2
        made.append(_ONSETS[a] + _RHYMES[(a + b + 1) % rhymes] + _ONSETS[b] + _RHYMES[(b + c) % rhymes])
    return made


def paragraphs(seed: int) -> list[list[str]]:
    """For each topic, `PER_TOPIC` paragraphs of 60 to 130 words, as plain sentences."""
    rng = np.random.default_rng([seed, 17])
    tail = rare_words(3000)
    made = []
    for own in TOPIC_WORDS:
        # Common words by Zipf's law get 60 %, the topic's words 20 %, the tail the rest.
        vocabulary = np.array([*COMMON, *own, *tail])
        weights = np.concatenate([0.6 * _zipf(len(COMMON)), 0.2 * _zipf(len(own)), 0.2 * _zipf(len(tail))])
        lengths = rng.integers(60, 131, PER_TOPIC)
        drawn = rng.choice(vocabulary, int(lengths.sum()), p=weights).tolist()
        texts, start = [], 0
        for length in lengths.tolist():
            texts.append(_sentences(drawn[start : start + length], int(rng.integers(7, 15))))
            start += length
        made.append(texts)
    return made


def _zipf(count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    weights = 1.0 / np.arange(1.0, count + 1.0)
    weights /= weights.sum()
    return weights


def _sentences(words: list[str], length: int) -> str:
    parts = (words[k : k + length] for k in range(0, len(words), length))
    return " ".join(" ".join(part).capitalize() + "." for part in parts)
