"""Planted leaks that the audit detects, and harmless texts that it accepts, by kind."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.evals.passport.leaks import LONGEST, RUN, QuestionMatcher, own_page

HOPS = QuestionMatcher(
    "Which city is the birthplace of the founder of the firm that published Song of Fupoz?", "Bukazo"
)
MOVIE = QuestionMatcher(
    "What was the opening weekend, in dollars, of the 1994 film in which the director of Zelo Nights played a barber?",
    "4,100,000",
)
AIME = QuestionMatcher(
    "Find the number of ordered pairs (x, y) of positive integers not exceeding 2024 with x + 2y divisible by 7.", "113"
)
VIGNETTE = QuestionMatcher(
    "A 34-year-old woman comes to the emergency department because of chest pain and shortness of breath since this "
    "morning. She returned from a long flight yesterday. Her pulse is 118/min and her left calf is swollen. Which of "
    "the following is the most likely diagnosis?",
    "Pulmonary embolism",
    "B",
)
PAGES = ("huggingface.co/datasets/gaia-benchmark/GAIA", "github.com/lupantech/AgentFlow", "hotpotqa.github.io")


@pytest.mark.parametrize(
    ("asked", "query"),
    [
        (HOPS, "which_city_is_the_birthplace_of_the_founder_of_the_firm_that_published_song_of_fupoz"),
        (
            HOPS,
            "<q>Which <b>city</b> is the <i>birthplace</i> of the founder</q> of the firm that published Song of Fupoz",
        ),
        (HOPS, "Which city is the birth\u00adplace of the foun\u200bder of the firm that published Song of Fupoz"),
        (HOPS, "Whïch city is the birthplace of the founder of the firm that published S\u00f3ng of Fupoz?"),
        (HOPS, "Which city is the birthplace of the founder of the firm that published"),
        (HOPS, "In which town was the person born who started the company behind Song of Fupoz?"),
        (HOPS, "Song of Fupoz publisher firm founder birthplace city"),
        (MOVIE, "opening weekend dollars 1994 film director of Zelo Nights played barber"),
        (MOVIE, "How much did the 1994 movie with the Zelo Nights director as a barber earn on its first weekend?"),
        (AIME, "ordered pairs positive integers not exceeding 2024, x+2y divisible by 7, number of"),
        (
            VIGNETTE,
            "34 year old woman chest pain shortness of breath long flight pulse 118/min left calf swollen, emergency "
            "department, returned yesterday morning, most likely diagnosis",
        ),
    ],
)
def test_the_question_as_query_in_another_dress(asked: QuestionMatcher, query: str) -> None:
    assert asked.is_query(query)


@pytest.mark.parametrize(
    ("asked", "query"),
    [
        (HOPS, "Song of Fupoz"),
        (HOPS, "Who published Song of Fupoz?"),
        (HOPS, "Who is the founder of the firm that published Song of Fupoz?"),
        (HOPS, "founder of Kimawo Press"),
        (HOPS, "Where was Rulo Tazi, founder of Kimawo Press, born?"),
        (HOPS, "birthplace of Rulo Tazi"),
        (MOVIE, "Zelo Nights director"),
        (MOVIE, "films of 1994 with Pavo Lerin as a barber"),
        (MOVIE, "The Last Shave (1994) box office opening weekend"),
        (AIME, "number of solutions of x + 2y = 0 mod 7"),
        (VIGNETTE, "swollen calf and tachycardia after a long flight"),
        (
            QuestionMatcher("Were Scott Derrickson and Ed Wood of the same nationality?", "yes"),
            "Scott Derrickson nationality",
        ),
        (QuestionMatcher("Who wrote Song of Fupoz?", "Rulo Tazi"), "author of Song of Fupoz"),
    ],
)
def test_steps_on_the_way_are_not_the_question(asked: QuestionMatcher, query: str) -> None:
    assert not asked.is_query(query)


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        (HOPS, "<td>Which city is the <a href='/w/b'>birthplace</a> of the founder of the firm</td><td>Bukazo</td>"),
        (HOPS, "q: which_city_is_the_birthplace_of_the_founder_of_the_firm_that_published_song_of_fupoz a: bukazo"),
        (HOPS, "Which city is the birthplace of the founder of ..."),
        (HOPS, "Quiz. Which city is the birth-\nplace of the founder of the firm ... published Song of Fupoz? Bukazo"),
        (HOPS, "&quot;Which&nbsp;city&nbsp;is the birthplace of the founder of the firm&hellip;&quot;"),
        (HOPS, "FAQ: In what town was the founder of the company behind Song of Fupoz born? It was Bukazo."),
        (MOVIE, "trivia night: what was the opening weekend, in dollars, of the 1994 film in which the dir..."),
        (MOVIE, "How much did the 1994 movie earn on its opening weekend, with the director of Zelo Nights as barber?"),
        (
            AIME,
            "2024 AIME II. **Find** the number of *ordered pairs* $(x, y)$ of positive integers not exceeding 2024 ...",
        ),
        (
            VIGNETTE,
            "34-year-old woman, emergency department: chest pain, shortness of breath since the morning; returned "
            "yesterday from a long flight. Pulse 118/min, left calf swollen. Most likely diagnosis: see below.",
        ),
        (
            VIGNETTE,
            "She returned from a long flight yesterday. Her pulse is 118/min and her left calf is swollen. Which",
        ),
    ],
)
def test_copies_that_were_dressed_cut_or_reworded(asked: QuestionMatcher, page: str) -> None:
    assert asked.is_copied(page, [])


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        (HOPS, "Song of Fupoz is a novel of 1911. It was published by Kimawo Press, a firm of Bukazo."),
        (HOPS, "Kimawo Press is a publishing firm. Its founder, Rulo Tazi, was born in the city of Bukazo."),
        (HOPS, "Who published Song of Fupoz? It was Kimawo Press."),
        (HOPS, "The birthplace of the founder of the firm is a museum today."),
        (MOVIE, "The Last Shave is a film of 1994. It earned 4,100,000 dollars on its opening weekend."),
        (MOVIE, "Zelo Nights is a film by Pavo Lerin. In 1994 he played a barber in The Last Shave."),
        (AIME, "An ordered pair is a pair of objects in which the order matters. Positive integers are whole numbers."),
        (
            VIGNETTE,
            "Pulmonary embolism is a blockage of an artery in the lungs. Symptoms are shortness of breath and chest "
            "pain; a swollen calf may be there as well. Long flights are a risk factor.",
        ),
    ],
)
def test_pages_on_the_matter_are_no_copies(asked: QuestionMatcher, page: str) -> None:
    assert not asked.is_copied(page, [])


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        (AIME, "1. 204 2. 371 3. 113 4. 25 5. 809 6. 55"),
        (AIME, "2024 AIME II\n| 1 | 073 |\n| 2 | 236 |\n| 3 | 045 |\n| 4 | 033 |\n| 5 | 113 |"),
        (AIME, "no,answer\n1,204\n2,25\n3,385\n4,113\n5,104"),
        (AIME, "Answer key: 204, 25, 113, 809"),
        (AIME, '{"ID": "2024-II-5", "Answer": 113}'),
        (HOPS, '{"task_id": "8e867cd7-cff9-4e6c-867a-ff5ddc2550be", "Final answer": "Bukazo"}'),
        (HOPS, '{"golden_answers": ["Bukazo"], "id": "dev_17"}'),
        (HOPS, "ground truth | Bukazo"),
        (VIGNETTE, "1) C 2) A 3) B 4) D 5) B 6) A"),
        (VIGNETTE, "Answer Key\n12 = B"),
        (VIGNETTE, "'answer_idx': 'B', 'meta_info': 'step2'"),
        (VIGNETTE, "Reference answer: pulmonary embolism"),
    ],
)
def test_answer_keys_without_questions(asked: QuestionMatcher, page: str) -> None:
    assert asked.is_listed(page)


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        (AIME, "There are 113 of them."),
        (AIME, "The table has 1, 2, 3, 4, 5, 6, 7 and 113."),
        (AIME, "1990: 112, 1991: 113, 1992: 115, 1993: 118, 1994: 120"),
        (AIME, "Chapter 1.1, 2.113 and 3.4"),
        (AIME, '{"temperature": 113}'),
        (HOPS, "1. Bukazo 2. Fupoz 3. Kimawo 4. Tazi 5. Rulo"),
        (HOPS, "The largest cities are Bukazo and Fupoz. A key to their history is the river."),
        (HOPS, '{"city": "Bukazo", "population": 1200}'),
        (HOPS, "The answer is Bukazo, says a reader."),
        (VIGNETTE, "Vitamins: 1. A 2. B 3. C"),
        (VIGNETTE, "Answer keys are sold separately. Section B begins on page 7."),
    ],
)
def test_lists_and_data_of_other_kinds_are_no_answer_keys(asked: QuestionMatcher, page: str) -> None:
    assert not asked.is_listed(page)


@pytest.mark.parametrize(
    "text",
    [
        "https://web.archive.org/web/20240102030405/https://huggingface.co/datasets/gaia-benchmark/GAIA",
        "https://archive.ph/newest/https://huggingface.co/datasets/gaia-benchmark/GAIA",
        "https://webcache.googleusercontent.com/search?q=cache:huggingface.co/datasets/gaia-benchmark/GAIA",
        "https://r.jina.ai/https://huggingface.co/datasets/gaia-benchmark/GAIA/raw/main/metadata.jsonl",
        "https://huggingface-co.translate.goog/datasets/gaia-benchmark/GAIA?_x_tr_sl=auto",
        "https://modelscope.cn/datasets/AI-ModelScope/gaia/files",
        "https://huggingface.co/datasets/somebody-else/GAIA",
        "huggingface.co › datasets › gaia-benchmark › GAIA",
        "see huggingface.co/datasets/gaia-benchmark/GAIA",
        "https://proxy.example/?url=https%3A%2F%2Fhuggingface.co%2Fdatasets%2Fgaia-benchmark%2FGAIA",
        "https://proxy.example/?url=https%253A%252F%252Fhuggingface.co%252Fdatasets%252Fgaia-benchmark%252FGAIA",
        "https://cdn.jsdelivr.net/gh/lupantech/AgentFlow@main/test/gaia/data/data.json",
        "https://raw.githack.com/lupantech/AgentFlow/main/test/gaia/data/data.json",
        "https://ghproxy.example/https://raw.githubusercontent.com/lupantech/AgentFlow/main/README.md",
        "https://web.archive.org/web/2019/http://hotpotqa.github.io/",
    ],
)
def test_mirrors_archives_and_proxies_are_the_benchmarks_pages(text: str) -> None:
    assert own_page(text, PAGES) in PAGES


@pytest.mark.parametrize(
    "text",
    [
        "https://web.archive.org/web/2024/https://huggingface.co/datasets",
        "https://huggingface.co/datasets/gaia-benchmark/results_public",
        "https://sci.esa.int/gaia",
        "https://huggingface.co/datasets/somebody/gaia-sky-survey",
        "https://gea.esac.esa.int/archive/datasets gaia",
        "https://github.com/lupantech",
        "https://github.com/somebody/agentflow",
        "nothotpotqa.github.io",
    ],
)
def test_other_archives_are_not(text: str) -> None:
    assert own_page(text, PAGES) == ""


def test_what_a_tool_repeats_of_its_call_is_no_copy_in_any_form() -> None:
    call = "In what town was the founder of the company behind Song of Fupoz born?"
    assert not HOPS.is_copied(f"Results for: {call}\n1. Kimawo Press", [call])


@given(st.lists(st.text("abcdefghij", min_size=3, max_size=8), min_size=RUN, max_size=60, unique=True), st.data())
def test_a_cut_that_leaves_thirteen_words_is_found(words: Sequence[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(words) - RUN))
    end = data.draw(st.integers(start + RUN, len(words)))
    assert QuestionMatcher(" ".join(words), "").is_copied(f"before {' '.join(words[start:end])} after", [])


def test_the_length_of_what_is_read_is_bounded() -> None:
    question = "Which organ pumps the blood through the body, and how often does it beat in a day?"
    asked = QuestionMatcher(question, "the heart")
    page = "huggingface.co/datasets/anyone/anything"
    beginning = "x " * (LONGEST // 2)
    assert asked.is_copied(question, [])
    assert not asked.is_copied(beginning + question, [])
    assert asked.answered_in("the heart")
    assert not asked.answered_in(beginning + "the heart")
    assert own_page(page, [page])
    assert not own_page(beginning + page, [page])
