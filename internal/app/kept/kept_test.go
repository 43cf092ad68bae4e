package kept

import (
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/bundle"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
)

// TestNature: what the management API tells of a queue, and does not.
func TestNature(t *testing.T) {
	for body, want := range map[string]undelivered.Nature{
		`{"type":"quorum","arguments":{},"effective_policy_definition":{}}`:                                                    {Type: "quorum"},
		`{"type":"classic","arguments":[],"effective_policy_definition":[],"auto_delete":true}`:                                {Type: "classic", AutoDelete: true},
		`{"type":"quorum","arguments":{"x-single-active-consumer":true},"policy":null}`:                                        {Type: "quorum", Single: true},
		`{"arguments":{"x-delivery-limit":-1},"effective_policy_definition":null,"policy":null}`:                               {Limits: []int64{-1}},
		`{"arguments":{"x-delivery-limit":9},"effective_policy_definition":{"delivery-limit":7},"policy":"p"}`:                 {Limits: []int64{9, 7}},
		`{"arguments":{"x-delivery-limit":9},"policy":"p","operator_policy":""}`:                                               {Limits: []int64{9}, Hidden: `policy "p" applies to it, and the management API does not tell what that sets`},
		`{"type":"quorum","arguments":{}}`:                                                                                     {Type: "quorum", Hidden: "the management API does not tell its policies yet"},
		`{"arguments":{"x-delivery-limit":9},"operator_policy":"p"}`:                                                           {Limits: []int64{9}, Hidden: `policy "p" applies to it, and the management API does not tell what that sets`},
		`{"arguments":{},"effective_policy_definition":{"delivery-limit":7,"max-length":5},"policy":"","operator_policy":"o"}`: {Limits: []int64{7}},
	} {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, "/api/queues/v/a%2Fb", r.URL.EscapedPath())
			_, _ = w.Write([]byte(body))
		}))
		settings, err := engine.Resolve(delayer.Options{
			URL: "amqp://localhost/v", Management: strings.Replace(api.URL, "//", "//u:p@", 1),
		}, "")
		require.NoError(t, err)
		got, err := nature(t.Context(), settings, "a/b")
		require.NoError(t, err, body)
		require.Equal(t, want, got, body)
		api.Close()
	}
}

// TestBundleOf: a bundle of the log can be sent there again if it can be read, and nothing else can.
func TestBundleOf(t *testing.T) {
	inLog := "\xd7B\x01\x00\x01w\x00\x01\x00\x02\x01a\x00\x00\x00\x00\x00\x01q\x00" // one message
	inSlot := "\xd7B\x01\x01\x01w\x00\x00\x00\x01\x00\x02\x01a\x00\x00\x00\x00\x00\x00\x01q\x00"
	sealed := func(body string) string {
		sum := crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli))
		return string(binary.BigEndian.AppendUint32([]byte(body), sum))
	}
	for name, c := range map[string]struct {
		body, log string
		want      undelivered.Bundle
	}{
		"readable":                {sealed(inLog), "p.log", undelivered.Bundle{Messages: 1, To: "p.log", Why: "a bundle of 1 message that can be read: retry"}},
		"readable, without a log": {sealed(inLog), "", undelivered.Bundle{Messages: 1, Why: "a bundle of 1 message for backend controller: give its configuration"}},
		"of a slot":               {sealed(inSlot), "p.log", undelivered.Bundle{Messages: 1, Why: "a bundle of 1 message of a slot, which only a controller may write"}},
		"with a byte changed":     {sealed(inLog)[:8] + "?" + sealed(inLog)[9:], "p.log", undelivered.Bundle{Why: "a bundle of messages that cannot be read: it is damaged: its checksum is wrong, or it has what no Delayer writes"}},
		"of no Delayer":           {"Hello, world", "p.log", undelivered.Bundle{Why: "a bundle of messages that cannot be read: it is not of a Delayer"}},
	} {
		got := bundleOf(c.log)(bundle.ContentType, []byte(c.body))
		require.Equal(t, &c.want, got, name)
	}
	require.Nil(t, bundleOf("p.log")("", []byte(sealed(inLog))), "of another type")
}

func TestReadBundle(t *testing.T) {
	b := bundle.Bundle{Writer: "w", InSlot: true, Records: []bundle.Record{
		{ID: "a", Due: 1, To: "~d:=q"}, {Kind: bundle.Cancel, ID: "b", Due: 2}, {ID: "c", Due: 3, To: "~d:=q"}, {Kind: bundle.Mark, Due: 3},
	}}
	messages, inSlot, err := readBundle(b.Bytes())
	require.NoError(t, err)
	require.Equal(t, 2, messages)
	require.True(t, inSlot)
}
