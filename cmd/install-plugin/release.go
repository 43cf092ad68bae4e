package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	repository = "rabbitmq/rabbitmq-delayed-message-exchange"
	pluginName = "rabbitmq_delayed_message_exchange"
)

// A release as the API shows it.
type release struct {
	Tag    string  `json:"tag_name"`
	Assets []asset `json:"assets"`
}

type asset struct {
	Name   string `json:"name"`
	URL    string `json:"browser_download_url"`
	Digest string `json:"digest"` // "sha256:…"; older ones have none
}

// fetch downloads the newest release for a series. digest is "" for the one that the API gives.
func fetch(ctx context.Context, api, series, digest string) (file, error) {
	text, err := get(ctx, api+"/repos/"+repository+"/releases?per_page=100")
	if err != nil {
		return file{}, err
	}
	var releases []release
	if err := json.Unmarshal(text, &releases); err != nil {
		return file{}, fmt.Errorf("%s: no list of releases: %w", api, err)
	}
	a, err := choose(releases, series)
	if err != nil {
		return file{}, err
	}
	if digest == "" {
		digest = a.Digest
	}
	if digest == "" {
		return file{}, fmt.Errorf("%s: the API gives no digest for it (give one that you trust: DIGEST=…)", a.Name)
	}
	content, err := get(ctx, a.URL)
	return file{a.Name, content, digest}, err
}

// choose returns the plugin's file of the newest release for a series.
func choose(releases []release, series string) (asset, error) {
	var best asset
	bestPatch, tags := -1, []string{}
	for _, r := range releases {
		tags = append(tags, r.Tag)
		patch, ok := patchOf(r.Tag, series)
		if !ok || patch <= bestPatch {
			continue
		}
		for _, a := range r.Assets {
			if strings.HasPrefix(a.Name, pluginName+"-") && strings.HasSuffix(a.Name, ".ez") {
				best, bestPatch = a, patch
			}
		}
	}
	if bestPatch < 0 {
		return best, fmt.Errorf("no release of the plugin is for RabbitMQ %s (there are %s)", series, strings.Join(tags, ", "))
	}
	return best, nil
}

// patchOf is the 7 of tag v4.0.7, if that is of the series 4.0.
func patchOf(tag, series string) (int, bool) {
	patch, found := strings.CutPrefix(strings.TrimPrefix(tag, "v"), series+".")
	n, err := strconv.Atoi(patch)
	return n, found && err == nil
}

// supported reports whether a series can run the plugin. One that cannot be read is left to the list
// of releases.
func supported(series string) bool {
	major, minor, _ := strings.Cut(series, ".")
	first, err1 := strconv.Atoi(major)
	second, err2 := strconv.Atoi(minor)
	return err1 != nil || err2 != nil || first < 4 || first == 4 && second < 3
}

func get(ctx context.Context, address string) ([]byte, error) {
	const patience, limit = 2 * time.Minute, 64 << 20
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	const hint = "give a mirror of the releases' API (MIRROR=…), or a local file (FILE=… DIGEST=…)"
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the releases cannot be reached: %w (%s)", err, hint)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s (%s)", address, res.Status, hint)
	}
	content, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err == nil && len(content) > limit {
		err = errors.New("it is longer than any release")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return content, nil
}
