package record_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/record"
)

type vectors struct {
	Valid []struct {
		Name          string
		Hex           hexBytes
		SameBytesFrom []string `json:"same_bytes_from"`
		Decoded       decoded
		RecordsCRC    *uint32 `json:"records_crc32c"` // then Decoded has the first and the last only
	}
	Streams []struct {
		Name    string
		Hex     hexBytes
		Batches []struct {
			BaseOffset int64 `json:"base_offset"`
			LastOffset int64 `json:"last_offset"`
			Position   int
			Size       int
		}
		Complete   int    `json:"complete_batches"`
		Left       int    `json:"bytes_left"`
		ErrorAfter string `json:"error_after"`
	}
	Malformed []struct {
		Name    string
		Hex     hexBytes
		Expect  string
		Stage   string `json:"expect_stage"`
		Records int    `json:"expect_records"`
	}
}

type decoded struct {
	BaseOffset      int64 `json:"base_offset"`
	Length          int32 `json:"batch_length"`
	LeaderEpoch     int32 `json:"partition_leader_epoch"`
	CRC             uint32
	Attributes      record.Attributes
	Transactional   bool   `json:"is_transactional"`
	Control         bool   `json:"is_control"`
	DeleteHorizon   *int64 `json:"delete_horizon_ms"`
	LastOffsetDelta int32  `json:"last_offset_delta"`
	BaseTimestamp   int64  `json:"base_timestamp"`
	MaxTimestamp    int64  `json:"max_timestamp"`
	ProducerID      int64  `json:"producer_id"`
	ProducerEpoch   int16  `json:"producer_epoch"`
	BaseSequence    int32  `json:"base_sequence"`
	LastSequence    int32  `json:"last_sequence"`
	Count           int32  `json:"record_count"`
	Records         []struct {
		Offset    int64
		Timestamp int64
		Key       hexBytes
		Value     hexBytes
		Headers   []struct {
			Key   string
			Value hexBytes
		}
	}
}

// hexBytes keeps null and "" apart.
type hexBytes []byte

func (h *hexBytes) UnmarshalJSON(b []byte) error {
	var s *string
	err := json.Unmarshal(b, &s)
	if s != nil && err == nil {
		*h, err = hex.DecodeString(*s)
	}
	return err
}

func loadVectors(tb testing.TB) (v vectors) {
	tb.Helper()
	b, err := os.ReadFile("testdata/recordbatch.json")
	require.NoError(tb, err)
	require.NoError(tb, json.Unmarshal(b, &v))
	return v
}

func (d *decoded) header() record.BatchHeader {
	return record.BatchHeader{
		BaseOffset: d.BaseOffset, Length: d.Length, LeaderEpoch: d.LeaderEpoch, CRC: d.CRC, Attributes: d.Attributes,
		LastOffsetDelta: d.LastOffsetDelta, BaseTimestamp: d.BaseTimestamp, MaxTimestamp: d.MaxTimestamp,
		ProducerID: d.ProducerID, ProducerEpoch: d.ProducerEpoch, BaseSequence: d.BaseSequence, Count: d.Count,
	}
}

func (d *decoded) records() []record.Record {
	var recs []record.Record
	for _, r := range d.Records {
		rec := record.Record{Offset: r.Offset, Time: record.TimeOf(r.Timestamp), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, record.Header{Key: h.Key, Value: h.Value})
		}
		recs = append(recs, rec)
	}
	return recs
}

// decode reads all records of a batch, each into a Record of its own.
func decode(tb testing.TB, b record.Batch) []record.Record {
	tb.Helper()
	var recs []record.Record
	it := b.Records()
	for {
		var r record.Record
		if !it.Next(&r) {
			require.NoError(tb, it.Err())
			return recs
		}
		recs = append(recs, r)
	}
}

func replan(tb testing.TB, h record.BatchHeader, recs []record.Record) []byte {
	tb.Helper()
	l, err := record.Replan(h, recs)
	require.NoError(tb, err)
	b := make([]byte, l.Size)
	l.Put(b, h, recs)
	return b
}

func TestVectorsValid(t *testing.T) {
	var plain, planned, replanned, coded int
	for _, v := range loadVectors(t).Valid {
		t.Run(v.Name, func(t *testing.T) {
			b, err := record.Parse(v.Hex)
			require.NoError(t, err)
			d := v.Decoded
			h := b.Header()
			require.Equal(t, d.header(), h)
			require.Equal(t, d.Transactional, h.Attributes.Transactional())
			require.Equal(t, d.Control, h.Attributes.Control())
			require.Equal(t, d.DeleteHorizon != nil, h.Attributes.HasDeleteHorizon())
			require.Equal(t, d.LastSequence, h.LastSequence())
			require.Equal(t, []byte(v.Hex), b.Bytes())
			if h.Attributes.Codec() != record.CodecNone {
				requireDecompressed(t, b, d.records(), v.RecordsCRC)
				coded++
				return
			}

			plain++
			require.NoError(t, b.Validate())
			recs := decode(t, b)
			require.Equal(t, d.records(), recs)

			switch v.Name {
			case "record-attributes-set": // a byte that readers ignore and that we write as 0
				return
			case "log-append-time": // the producer's times are in the bytes, but no reader gets to see them
				recs[0].Time = record.TimeOf(d.BaseTimestamp)
				recs[1].Time = record.TimeOf(d.BaseTimestamp + 50)
			}
			require.Equal(t, []byte(v.Hex), replan(t, h, recs))
			replanned++

			if len(recs) > 0 && int(h.LastOffsetDelta) == len(recs)-1 && !h.Attributes.HasDeleteHorizon() {
				require.Equal(t, []byte(v.Hex), encode(t, h, recs))
				planned++
			}
		})
	}
	require.Equal(t, []int{32, 31, 26, 17}, []int{plain, replanned, planned, coded})
}

func TestVectorsStreams(t *testing.T) {
	var run int
	for _, v := range loadVectors(t).Streams {
		t.Run(v.Name, func(t *testing.T) {
			rest, pos := []byte(v.Hex), 0
			for _, want := range v.Batches {
				b, err := record.Parse(rest)
				require.NoError(t, err)
				require.NoError(t, decompress(t, b).Validate())
				require.Equal(t, want.Position, pos)
				require.Equal(t, want.Size, b.Header().Size())
				require.Equal(t, want.BaseOffset, b.Header().BaseOffset)
				require.Equal(t, want.LastOffset, b.Header().LastOffset())
				require.Equal(t, want.LastOffset+1, b.Header().NextOffset())
				pos += len(b.Bytes())
				rest = rest[len(b.Bytes()):]
			}
			require.Equal(t, v.Complete, len(v.Batches))
			require.Len(t, rest, v.Left)
			_, err := record.Parse(rest)
			if v.ErrorAfter != "" {
				require.Equal(t, record.Stage(v.ErrorAfter), stageOf(t, err))
			} else {
				require.Equal(t, record.ErrIncomplete, err)
			}
			run++
		})
	}
	require.Equal(t, 6, run)
}

// Where this package notices in another step than Kafka does, or is stricter than it, and the vector's note allows it.
var (
	earlier = map[string]record.Stage{
		"batch-length-48": record.StageBatchHeader, // Kafka computes no checksum then either, but calls it so
		"magic-0":         record.StageBatchHeader, // Kafka goes on to read its older formats
		"magic-1":         record.StageBatchHeader,
		"count-negative":  record.StageHeader, // so that nobody need fear the Count of a parsed batch
	}
	stricter = map[string]record.Stage{
		"count-zero-with-records": record.StageRecords, // nothing that is there may be passed over in silence
	}
)

func TestVectorsMalformed(t *testing.T) {
	ran := map[string]int{}
	for _, v := range loadVectors(t).Malformed {
		t.Run(v.Name, func(t *testing.T) {
			b, err := record.Parse(v.Hex)
			if err == nil {
				b, err = b.Decompress(nil, 1<<20)
			}
			if err == nil {
				err = b.Validate()
				requireIteratorAgrees(t, b, err)
			}
			ran[v.Expect]++

			stage, strict := stricter[v.Name]
			switch {
			case strict:
				require.Equal(t, stage, stageOf(t, err))
			case v.Expect == "accept":
				require.NoError(t, err)
				require.Len(t, decode(t, b), v.Records)
			case v.Expect == "incomplete":
				require.Equal(t, record.ErrIncomplete, err)
			default:
				stage, ok := earlier[v.Name]
				if !ok {
					stage = record.Stage(strings.ReplaceAll(v.Stage, "_", " "))
				}
				require.Equal(t, stage, stageOf(t, err))
				require.ErrorIs(t, err, record.ErrCorrupt)
				require.Equal(t, strings.HasPrefix(v.Name, "magic"), errors.Is(err, record.ErrMagic))
			}
		})
	}
	require.Equal(t, map[string]int{"error": 62, "incomplete": 21, "accept": 8, "reject": 1}, ran)
}

func stageOf(t *testing.T, err error) record.Stage {
	t.Helper()
	var fe *record.FormatError
	require.ErrorAs(t, err, &fe)
	require.NotEmpty(t, fe.Error())
	return fe.Stage
}

// requireIteratorAgrees checks that reading ends as Validate does, and that an iterator that has failed stays so.
func requireIteratorAgrees(t *testing.T, b record.Batch, want error) {
	t.Helper()
	it := b.Records()
	var r record.Record
	for it.Next(&r) {
	}
	require.Equal(t, want, it.Err())
	require.False(t, it.Next(&r))
	require.Equal(t, want, it.Err())
}
