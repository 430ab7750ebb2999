"""Small pieces of writing from word lists: what the assistant of a synthetic conversation said."""

from __future__ import annotations

import re
from random import Random

KINDS = (
    "poem",
    "short story",
    "blog post",
    "news report",
    "letter",
    "speech",
    "diary entry",
    "product review",
    "travel note",
    "radio script",
)
TOPICS = (
    "otters", "lanterns", "bridges", "kites", "clocks", "orchards", "ferries", "violins",
    "glaciers", "beekeepers", "libraries", "windmills", "umbrellas", "teapots", "foxes", "canals",
    "comets", "bakers", "lighthouses", "mushrooms", "trams", "gardens", "puppets", "harbours",
    "sparrows", "carpets", "mirrors", "tunnels", "ladders", "pencils", "rivers", "tailors",
    "turtles", "balconies", "compasses", "markets", "swimmers", "pianos", "islands", "hedgehogs",
    "postcards", "fountains", "owls", "bicycles", "staircases", "cobblers", "meadows", "bells",
)  # fmt: skip

# words in braces stand for one of these; {topic} is what the piece is about
_WORDS = {
    "adjective": (
        "quiet", "patient", "stubborn", "bright", "crooked", "gentle", "forgotten", "careful",
        "restless", "modest", "curious", "weathered", "cheerful", "solemn", "sturdy", "delicate",
        "familiar", "peculiar", "generous", "wary", "humble", "graceful", "noisy", "pale",
    ),
    "place": (
        "the old mill", "the north gate", "the harbour wall", "a narrow valley", "the town square",
        "the school yard", "an empty platform", "the upper village", "the botanical garden",
        "a rented kitchen", "the edge of the marsh", "the third floor", "the railway bridge",
        "a lighthouse keeper's yard", "the salt works", "the market hall", "a borrowed barn",
        "the ring road", "the winter quarters", "the music school",
    ),
    "person": (
        "my grandmother", "the night porter", "a retired surveyor", "our neighbour Ilse",
        "the ferryman", "a girl named Tamsin", "the youngest clerk", "old Mr Penrose",
        "the choir master", "a visiting painter", "the stationmaster", "my cousin Radek",
        "the woman from the bakery", "a teacher from Lund", "the harbour pilot", "two apprentices",
        "the museum guard", "a tired courier", "the gardener's son", "Captain Okafor",
    ),
    "time": (
        "in early March", "before sunrise", "on the longest day", "after the second storm",
        "during the last harvest", "one Thursday evening", "in the dry summer", "at noon",
        "when the fog had lifted", "in the week of the fair", "late in October", "eleven years ago",
        "after the flood", "between two trains", "on a Sunday without wind", "late at night",
    ),
    "thing": (
        "a brass key", "a bundle of letters", "a jar of honey", "an unfinished map",
        "a coil of rope", "a blue notebook", "half a loaf", "a cracked bell", "an old photograph",
        "a wooden spoon", "a handful of coins", "a folded flag", "a bag of seeds",
        "a borrowed coat", "a broken oar", "a list of names", "a small lamp", "a silver thimble",
        "a tin whistle", "a wet umbrella",
    ),
    "noticed": (
        "noticed", "remembered", "painted", "counted", "repaired", "missed", "followed",
        "described", "defended", "measured", "greeted", "sheltered", "admired", "photographed",
    ),
    "feeling": (
        "relief", "pride", "envy", "wonder", "homesickness", "gratitude", "doubt", "amusement",
        "calm", "impatience", "tenderness", "surprise",
    ),
    "number": (
        "three", "four", "seven", "nine", "a dozen", "nineteen", "thirty", "forty-one", "sixty",
        "two hundred",
    ),
}  # fmt: skip

_OPENINGS = {
    "poem": (
        "O {adjective} {topic} near {place},",
        "I sing of {topic}, {adjective} and slow,",
        "Who has seen the {topic} {time}?",
    ),
    "short story": (
        "{time}, {person} came to {place} and asked about the {topic}.",
        "Nobody at {place} spoke of the {topic} until {person} found {thing}.",
        "It began with {thing} and {number} {adjective} {topic}.",
    ),
    "blog post": (
        "Welcome back, readers: today I want to talk about {topic} and {thing}.",
        "Let me say it plainly, {topic} changed how I look at {place}.",
        "Last month I promised you a post about {adjective} {topic}, and here it is.",
    ),
    "news report": (
        "{place}: {number} {topic} were reported {time}, officials said.",
        "A dispute about {topic} near {place} was settled {time}.",
        "Residents were told {time} that the {topic} would stay.",
    ),
    "letter": (
        "Dear friend, you asked me how the {topic} are doing at {place}.",
        "Dear editor, your column about {adjective} {topic} reached me {time}.",
        "My dear sister, {person} sends you {thing} and news of the {topic}.",
    ),
    "speech": (
        "Ladies and gentlemen, we are here at {place} because of {topic}.",
        "Friends, {time} I was asked to say a word about {topic}.",
        "Honoured guests, allow me to begin with {thing} and end with {topic}.",
    ),
    "diary entry": (
        "Today the {topic} near {place} were {adjective} again.",
        "I could not sleep, so I wrote down all I know about {topic}.",
        "{person} visited {time} and we spoke of nothing but {topic}.",
    ),
    "product review": (
        "I ordered {number} {topic} {time} and used them at {place}.",
        "These {topic} arrived with {thing}, which I had not expected.",
        "Four stars for the {adjective} {topic}, and here is why.",
    ),
    "travel note": (
        "Whoever comes to {place} should look for the {topic} first.",
        "We reached {place} {time}, and the {topic} were waiting.",
        "My map showed no {topic}, yet {place} was full of them.",
    ),
    "radio script": (
        "Narrator: good evening, tonight we hear about {topic} from {place}.",
        "Narrator: {time} our microphone stood among {adjective} {topic}.",
        "Host: with me is {person}, who knows more about {topic} than anybody.",
    ),
}
_SENTENCES = (
    "{person} {noticed} the {topic} {time}.",
    "Beyond {place} there was {thing}, and beside it {number} {adjective} {topic}.",
    "People who live near {place} think of {topic} with {feeling}.",
    "It takes {number} hours to walk from {place} to the {topic}.",
    "{time}, {thing} was exchanged for {number} {topic}.",
    "Some say that {adjective} {topic} bring {feeling}; {person} does not agree.",
    "Between {feeling} and {feeling}, {person} chose the {topic}.",
    "What {person} {noticed} at {place} was {adjective}, almost {adjective}.",
    "There are {number} reasons to care about {topic}, and {thing} is one of them.",
    "A {adjective} wind came from {place}, and the {topic} did not mind.",
    "{person} kept {thing} in a drawer, next to a drawing of {topic}.",
    "The {topic} near {place} are more {adjective} than those we knew {time}.",
    "Nobody {noticed} {thing}, because all eyes were on the {topic}.",
    "With {feeling}, {person} told us how the {topic} came to {place}.",
    "{number} of the {topic} were {adjective}, the others merely {adjective}.",
    "If you pass {place} {time}, leave {thing} for the {topic}.",
    "The first rule about {topic} was written at {place} {time}.",
    "{person} laughed, {noticed} {thing} and went back to the {topic}.",
    "An {adjective} silence lay over {place}, broken only by {topic}.",
    "We gave the {topic} {number} days, and then we felt {feeling}.",
    "Without {topic}, {place} would be a {adjective} spot with {thing}.",
    "{thing} lay under the {topic}, and {person} {noticed} it {time}.",
    "{feeling} is a {adjective} word for what {topic} do to {person}.",
    "On the road to {place}, {number} travellers spoke about {adjective} {topic}.",
)
_CLOSINGS = (
    "That is all that can be said about {topic} at {place}.",
    "In the end {person} {noticed} only the {adjective} ones.",
    "And so {thing} stayed with the {topic}, {time}.",
    "I will think of these {topic} with {feeling}.",
    "Ask {person}, who was at {place} {time}.",
    "Let the {topic} be {adjective}; we have {thing}.",
)
_SLOT = re.compile(r"\{(\w+)\}")
_VOWEL = re.compile(r"\b([Aa])n? (?=([a-z]))")


def write(random: Random, kind: str, topic: str, sentences: int) -> str:
    """A piece of writing: an opening, some sentences, a closing.

    Args:
        kind: one of KINDS; a poem has a line for each sentence, everything else is a paragraph.
        sentences: between opening and closing.
    """
    patterns = [
        random.choice(_OPENINGS[kind]),
        *_drawn(random, sentences),
        random.choice(_CLOSINGS),
    ]
    lines = [_sentence(random, pattern, topic) for pattern in patterns]
    return ("\n" if kind == "poem" else " ").join(lines)


def _drawn(random: Random, count: int) -> list[str]:
    drawn: list[str] = []
    while len(drawn) < count:
        drawn.extend(random.sample(_SENTENCES, min(count - len(drawn), len(_SENTENCES))))
    return drawn


def _sentence(random: Random, pattern: str, topic: str) -> str:
    def word(slot: re.Match[str]) -> str:
        name = slot.group(1)
        return topic if name == "topic" else random.choice(_WORDS[name])

    text = _VOWEL.sub(_article, _SLOT.sub(word, pattern))
    return text[0].upper() + text[1:]


def _article(found: re.Match[str]) -> str:
    return found.group(1) + ("n " if found.group(2) in "aeiou" else " ")
