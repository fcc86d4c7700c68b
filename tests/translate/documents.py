"""One-page documents, and translations with known words."""

from resmlp_mt.translate.alignment import WORD
from resmlp_mt.translate.documents import document_of
from resmlp_mt.translate.translator import Translation

TEXT = """\
  A man in a hat sleeps. A dog runs!\r
\r
\tTwo women, in the park.  \r
12.50
A girl is reading a book about the old castle on
the hill. Her brother, Mr. Smith, would like to
swim in the lake, e.g. tomorrow. It
rains.

- * Milk
eggs
"""

HTML = """\
<!DOCTYPE html>
<html lang="en">
<head><title>A man</title><meta charset="utf-8"><style>p > a {color: red}</style>
<script>if (1 < 2) document.write("<p>A dog.</p>")</script></head>
<body class='old' data-x="a &amp; b">
<!-- A comment. -->
<h1>The <em>old</em> castle</h1>
<p>A man in an <b>orange <i title="A title">hat</i></b> reads<br/>a <a href="b.html?x=1&amp;y=2">good book</a>. He
likes it &amp; sleeps.</p>
<ul><li>Call <code>f(x)</code> twice<sup>1</sup>, please.<li><img src=x.png alt="A dog">Next to it.</ul>
<pre>A man   in a hat</pre>
<p translate="no">A man <b>stays</b>.</p><div class="big notranslate"><div>A dog.</div> A cat.</div>
<table><tr><td>Two men<td>&copy; 2024</table>
<p><b>One sentence. Another one.</b> <a id="here"></a>A third <kbd>Ctrl</kbd> one.</p>
</body>
</html>
"""

MARKDOWN = """\
---
title: A man
---
# A man in a *hat* #

A man in an **orange hat** is [sitting on the
bench](http://x.org/a_(b) "A title"). Two dogs
run{two blanks}
on the grass with `ls -l` and \\*stars\\* & more.

> A girl in a __red dress__ stands
> in front of a wall. A boy ![a [dog]](dog_(1).png) sleeps.

- [x] A woman is smiling[^1].
  The dog [runs][ref], see <https://x.org/%C3%BC> too.
  1. Two men play ***football*** <b>outside</b> <i translate="no">or in</i><kbd>Ctrl</kbd>.

| A dog | A *cat* |
| --- | :-: |
| A man. It \\| runs. | 12[^2] |

```python
A man in a hat
```

    A man in code

A boy
=====
A snake_case_name and one \\*open mark.

[ref]: http://y.org "T"
[^2]: http://z.org
[^1]: A note.
""".replace("{two blanks}", "  ")

SRT = """\
\ufeff1
00:00:01,000 --> 00:00:02,500
A man in an <i>orange hat</i> is
sitting on the bench.

2
00:00:03,000 --> 00:00:04,500 X1:1
- A dog runs.
- {\\an8}Two men play & win.

3
00:00:05,000 --> 00:00:06,500

"""

PAGES = {"text": TEXT, "html": HTML, "markdown": MARKDOWN, "srt": SRT}


def translation(source, order=None, change=str):
    """Return a translation: the words of a sentence in another order, with the alignment."""
    words = WORD.findall(source)
    order = range(len(words)) if order is None else order
    text = source if order == range(len(words)) else " ".join(words[number] for number in order)
    rows = [[float(number == other) for other in range(len(words) + 1)] for number in order]
    return Translation(change(text), 0.0, [change(words[number]) for number in order], words, rows)


def same(text, kind="html"):
    """Return a document in which each sentence is its own translation."""
    document = document_of(text, kind)
    return document.joined([translation(sentence) for sentence in document.sentences])


def reversed_words(source):
    return translation(source, range(len(WORD.findall(source)))[::-1])
