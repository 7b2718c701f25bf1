"""The estimate: close enough, on the safe side, and honest about being one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgemem.llama.estimate import EstimateTokenizer, estimate_tokens
from edgemem.llama.template import CHATML
from edgemem.llama.tokenizer import LlamaTokenizer

PROSE = {
    "English": "Could you remind me tomorrow morning to call the dentist about Alice's appointment? She said it was "
    "moved from Tuesday to Thursday at half past nine, and don't forget the peanuts allergy.",
    "German": "Könntest du mich morgen früh daran erinnern, den Zahnarzt wegen Alices Termin anzurufen? Die "
    "Küchenmaschine hat die blaue Tasse auf das zweite Regalbrett gestellt.",
    "French": "Pourrais-tu me rappeler demain matin d'appeler le dentiste au sujet du rendez-vous d'Élise ? Il a été "
    "déplacé à jeudi, neuf heures et demie.",
    "Vietnamese": "Bạn có thể nhắc tôi sáng mai gọi cho nha sĩ về cuộc hẹn của Alice không? Cô ấy nói nó được chuyển "
    "từ thứ ba sang thứ năm lúc chín giờ rưỡi.",
    "Chinese": "你能不能明天早上提醒我给牙医打电话，问一下爱丽丝的预约？她说已经从星期二改到星期四上午九点半。",
    "Japanese": "明日の朝、アリスの予約について歯医者に電話するように思い出させてくれますか？ピーナッツアレルギーも忘れないでください。",
    "Korean": "내일 아침에 앨리스의 예약에 대해 치과에 전화하라고 알려 줄 수 있나요? 화요일에서 목요일로 옮겨졌다고 했어요.",
    "Thai": "พรุ่งนี้เช้าช่วยเตือนฉันให้โทรหาหมอฟันเรื่องนัดของอลิซได้ไหม เธอบอกว่าเลื่อนจากวันอังคารเป็นวันพฤหัสบดีเวลาเก้าโมงครึ่ง",
    "Arabic": "هل يمكنك أن تذكرني صباح الغد بالاتصال بطبيب الأسنان بشأن موعد أليس؟ قالت إنه تم نقله من الثلاثاء إلى الخميس.",
    "Hebrew": "תוכל להזכיר לי מחר בבוקר להתקשר לרופא השיניים בקשר לתור של אליס? היא אמרה שהוא עבר ליום חמישי.",
    "Hindi": "क्या आप मुझे कल सुबह ऐलिस की अपॉइंटमेंट के बारे में दंत चिकित्सक को फोन करने की याद दिला सकते हैं?",
    "Russian": "Не мог бы ты напомнить мне завтра утром позвонить стоматологу насчёт приёма Алисы? Его перенесли.",
    "Greek": "Μπορείς να μου θυμίσεις αύριο το πρωί να τηλεφωνήσω στον οδοντίατρο για το ραντεβού της Αλίκης;",
    "JSON": '{"name": "set_timer", "arguments": {"minutes": 7, "label": "eggs"}, "result": {"ok": true, "id": "t-17"}}',
    "numbers": "2026-11-21 13:10 +49 30 1234567 3.14159 100,000 12:45",
    "emoji": "Great! 😀🎉👍 see you ✅❤️🔥",
}


@pytest.fixture(scope="module")
def tokenizers(vocabularies: Path) -> Iterator[list[LlamaTokenizer]]:
    """Return the tokenizers that the estimate is set to."""
    found = [
        LlamaTokenizer(vocabularies / f"ggml-vocab-{name}.gguf", template=CHATML)
        for name in ("qwen2", "llama-bpe", "gemma-4")
    ]
    yield found
    for tokenizer in found:
        tokenizer.close()


def test_error_bound(tokenizers: list[LlamaTokenizer]) -> None:
    """In every script the estimate says 90 to 155 % of what the dearest of three vocabularies takes."""
    ratios = {}
    for language, text in PROSE.items():
        dearest = max(len(tokenizer.encode(text)) for tokenizer in tokenizers)
        ratios[language] = len(EstimateTokenizer().encode(text)) / dearest
    assert all(0.9 <= ratio <= 1.55 for ratio in ratios.values()), ratios


def test_whole_conversation(tokenizers: list[LlamaTokenizer]) -> None:
    """With roles, markers and a generation prompt the estimate stays within the same bound."""
    messages = [
        {"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(PROSE.values())
    ]
    estimated = EstimateTokenizer().count(messages)
    assert 0.9 <= estimated / tokenizers[0].count(messages) <= 2.0


def test_grows_by_appending() -> None:
    """The made-up ids of a conversation are the beginning of those of a longer one."""
    tokenizer = EstimateTokenizer()
    messages = [{"role": "user", "content": "Where is my cup?"}]
    prompt = tokenizer.render(messages)
    longer = tokenizer.render([*messages, {"role": "assistant", "content": "Here."}])
    assert longer.ids[: prompt.n] == prompt.ids
    assert not tokenizer.exact


def test_tool_calls_and_schemas_count() -> None:
    """Arguments of a tool call and the schemas on offer take tokens."""
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "note", "arguments": '{"text": "' + "word " * 500 + '"}'},
    }
    called = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    assert estimate_tokens(called) > 500
    tokenizer = EstimateTokenizer()
    schema = {"type": "function", "function": {"name": "note", "description": "Write down. " * 20}}
    assert tokenizer.count(called, tools=[schema]) > tokenizer.count(called) + 60


def test_estimate_tokens_of_the_seed(tokenizers: list[LlamaTokenizer]) -> None:
    """`estimate_tokens` takes any iterable, and a tokenizer, a chat model or a `count_tokens` object as its llm."""
    messages = [
        {"role": "user", "content": "hello there"},
        {"role": "assistant", "content": [{"text": "hi"}]},
    ]
    exact = tokenizers[0].count(messages, add_generation_prompt=False)

    class Chat:
        tokenizer = tokenizers[0]

    class SeedModel:
        def count_tokens(self, text: str) -> int:
            return 100 * len(text.split())

    assert estimate_tokens(iter(messages), tokenizers[0]) == exact
    assert estimate_tokens(messages, Chat()) == exact
    assert 300 < estimate_tokens(messages, SeedModel()) < 330
    assert 0 < estimate_tokens(messages) < 30
    assert estimate_tokens([]) == 0


@pytest.mark.parametrize("text", ["", "\x00", "\ud800", " " * 1000, "\n" * 1000, "x" * 1_000_000])
def test_odd_text(text: str) -> None:
    """Any text has an estimate."""
    message: dict[str, Any] = {"role": "user", "content": text}
    assert estimate_tokens([message]) >= 5
