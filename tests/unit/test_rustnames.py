"""Rust's v0 symbols: the examples of RFC 2603 and of the kernel, and damaged ones."""

from __future__ import annotations

import random

import pytest

from pipeline.rustnames import demangled

NAMES = {
    "_RNvC6_123foo3bar": "123foo::bar",
    "_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_": "cc::spawn::{closure#0}::{closure#0}",
    "_RINvNtC3std3mem8align_ofjE": "std::mem::align_of::<usize>",
    "_RNvMs_NtNtC4core3str6traitsNtB4_3Foo3bar": "<core::str::traits::Foo>::bar",
    "_RINvMNtC4core6optionINtB3_6OptionhE3mapppE": "<core::option::Option<u8>>::map::<_, _>",
    "_RNvYNtC3foo3BarNtC3foo5Trait3baz": "<foo::Bar as foo::Trait>::baz",
    "_RNvXs1_CscPPBqWtAqum_11ashmem_rustNtB5_6AshmemNtNtCs43vyB533jt3_6kernel10miscdevice10"
    "MiscDevice4mmap": "<ashmem_rust::Ashmem as kernel::miscdevice::MiscDevice>::mmap",
    "_RINvC3foo3barKj1f_E": "foo::bar::<31>",
    "_RINvC3foo3barKb1_E": "foo::bar::<true>",
    "_RINvC3foo3barKc76_E": "foo::bar::<'v'>",
    "_RINvC3foo3barKln7_E": "foo::bar::<-7>",
    "_RINvC3foo3barFUKCEuE": 'foo::bar::<unsafe extern "C" fn()>',
    "_RINvC3foo3barDNtB2_3BarEL_E": "foo::bar::<dyn foo::Bar>",
    "_RINvC3foo3barRShQxOyTjEAhj4_E": "foo::bar::<&[u8], &mut i64, *mut u64, (usize,), [u8; 4]>",
    "_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y": (
        "utf8_idents::საჭმელად_გემრიელი_სადილი"
    ),
    "_RNvC3foo3bar.llvm.123": "foo::bar",
    "_RNvC3foo3barCs1_3baz": "foo::bar",  # the crate that it was made for
}


@pytest.mark.parametrize(("symbol", "name"), NAMES.items())
def test_names(symbol: str, name: str) -> None:
    assert demangled(symbol) == name


@pytest.mark.parametrize(
    "symbol",
    [
        *("ring_add", "_R", "_RNvC3fo", "_RNvMC0TTBd_E5recur", "_RNvC3foo3bar!", "_RB_"),
        *("_RYFG_FGyyEvYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYY", "_RINvC3foo3barKzE"),
    ],
)
def test_what_is_no_name_stays(symbol: str) -> None:
    assert demangled(symbol) == symbol


def test_damaged_names_do_no_harm() -> None:
    rng = random.Random(5)
    for symbol in NAMES:
        for _ in range(200):
            at = rng.randrange(2, len(symbol))
            demangled(symbol[:at] + rng.choice("ABCEIKMNXYB_0s9") + symbol[at + 1 :])
            demangled(symbol[:at])
    assert demangled("_R" + "S" * 5000) == "_R" + "S" * 5000
