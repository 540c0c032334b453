# SPDX-License-Identifier: GPL-2.0-only
# An hour of simulated time, recorded: its size and what it costs, what the report says of a noisy neighbour that came
# in minute 30, and its page in a real browser. The page and its picture stay in the directory of results.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
browser=$(command -v chromium-headless-shell || command -v chromium) ||
	fail "a browser is missing; install chromium-headless-shell or chromium"
vm --cpus 2 --clock icount --icount-shift 4 --timeout 7200 -- \
	python3 -B tests/vm/guest/recording_hour.py "$bin/scx_drfq" "$bin/drfq-load" "$out"
page=$out/report.html
"$browser" --headless --no-sandbox --disable-gpu --dump-dom "file://$page" > "$out/dom.html" 2> "$out/browser.txt"
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1000,1400 \
	--screenshot="$out/report.png" "file://$page" 2>> "$out/browser.txt"
charts=$(grep -o '<svg' "$out/dom.html" | wc -l)
lines=$(grep -oE '<(path|polyline) ' "$out/dom.html" | wc -l)
echo "in the browser: $charts charts with $lines lines; its picture: $out/report.png"
((charts > 0 && lines > 0)) || fail "the page has no chart"
grep -q 'noisy' "$out/dom.html" || fail "the page does not name the noisy neighbour"
