package output

import (
	"fmt"

	"choria-provision/internal/named"

	"github.com/prometheus/client_golang/prometheus"
)

// WriteTextfile writes what g gathers to path, for the textfile collector of
// node_exporter: readable by everybody, and replaced in one go, so that the
// collector never reads half of it. The directory must exist.
func WriteTextfile(path string, g prometheus.Gatherer) error {
	if err := prometheus.WriteToTextfile(path, g); err != nil {
		return fmt.Errorf("metrics_textfile: %w", named.Path(err, path))
	}
	return nil
}
