"""Prices as shops write them, kept exact."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

MAX_AMOUNT = Decimal(10) ** 9
_SYMBOLS = {"CNY": "¥", "EUR": "€", "GBP": "£", "JPY": "¥", "USD": "$"}
_GROUPED = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")
_DECIMAL_COMMA = re.compile(r"\d+,\d{1,2}")
_PLAIN = re.compile(r"\d{1,10}(\.\d{1,6})?")


@dataclass(frozen=True, slots=True)
class Price:
    """An amount of at most six decimals; `currency` is a code of ISO 4217, or "" if unknown."""

    amount: Decimal
    currency: str

    def __str__(self) -> str:
        unit = _SYMBOLS.get(self.currency) or (f"{self.currency} " if self.currency else "")
        return f"{unit}{self.amount:f}"

    @property
    def number(self) -> int | float:
        """The amount as a JSON number; `amount` written out is the exact one."""
        whole = self.amount == self.amount.to_integral_value()
        return int(self.amount) if whole else float(self.amount)


def read_price(amount: object, currency: object) -> Price | None:
    """The price that a page states, or None if it states no amount from 0 to 10^9."""
    if isinstance(amount, bool) or not isinstance(amount, str | int | Decimal):
        return None
    text = re.sub(r"[^\d.,\-+eE]", "", str(amount))
    if _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    elif _DECIMAL_COMMA.fullmatch(text):
        text = text.replace(",", ".")
    if not _PLAIN.fullmatch(text):
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    code = currency.strip().upper() if isinstance(currency, str) else ""
    if value > MAX_AMOUNT:
        return None
    return Price(value, code if re.fullmatch("[A-Z]{3}", code) else "")
