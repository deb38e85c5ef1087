"""The metadata of a broker: the image of the committed records of the metadata log."""

from __future__ import annotations

from quorumd.broker.metadata.metadata_delta import DeltaBuilder, MetadataDelta, difference
from quorumd.controller.broker import Broker, BrokerEndpoint
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.record_versions import CORDONED_SINCE
from quorumd.controller.undo_log import UndoEntry
from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import values


class BrokerMetadata:
    """The image of the committed records up to `offset`, which is -1 if there are none.

    If the process is also a controller, the controller has an image of its own, which is ahead of the committed
    records; a broker must not act on it.
    """

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.offset = -1
        self._builder = DeltaBuilder()

    def apply(self, data: bytes, header: BatchHeader) -> MetadataDelta:
        """Apply a committed batch; `data` contains all of it at `header.position`.

        Raises MalformedMessage, or UnsupportedVersion for an unknown record; the message names the record's offset.
        """
        image = self.image
        changes: list[UndoEntry] = []
        offset = header.base_offset
        try:
            for value in [] if header.is_control else values(data, header):
                record = decode_record(value)
                self._builder.note(record, image)
                image.apply(record, changes, value)
                offset += 1
        except UnsupportedVersion as error:
            raise UnsupportedVersion(f"at offset {offset}: {error}") from None
        except MalformedMessage as error:
            raise MalformedMessage(f"at offset {offset}: {error}") from None
        self.offset = header.end_offset - 1
        return self._builder.build(self.offset)

    def load(self, image: ClusterImage, end_offset: int) -> MetadataDelta:
        """Replace the image by `image`, a snapshot of the records below `end_offset`."""
        before, self.image = self.image, image
        self.offset = end_offset - 1
        self._builder = DeltaBuilder()
        return difference(before, image, self.offset)

    @property
    def has_cordons(self) -> bool:
        """Whether the finalized metadata version supports cordoned log directories (KIP-1066)."""
        return self.image.metadata_version >= CORDONED_SINCE

    def broker(self, broker_id: int) -> Broker | None:
        """Return the registration of a broker."""
        return self.image.brokers.get(broker_id)

    def broker_epoch(self, broker_id: int) -> int:
        """Return the epoch of a broker, -1 if it is not registered."""
        broker = self.image.brokers.get(broker_id)
        return broker.epoch if broker is not None else -1

    def is_eligible(self, broker_id: int) -> bool:
        """Whether a broker may be in an ISR: registered, not fenced and not in controlled shutdown."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def endpoint(self, broker_id: int, listener: str) -> BrokerEndpoint | None:
        """Return the endpoint of a broker's listener, None if it is unknown."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else broker.endpoint(listener)
