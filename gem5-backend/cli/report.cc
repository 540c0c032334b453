// SPDX-License-Identifier: GPL-2.0-only
#include "report.hh"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace drfq {
namespace {

double reduce(std::vector<double> v, const std::string &statistic) {
  std::sort(v.begin(), v.end());
  if (statistic == "min") return v.front();
  if (statistic == "max") return v.back();
  if (statistic == "worst")
    return std::fabs(v.front()) > std::fabs(v.back()) ? v.front() : v.back();
  if (statistic == "mean") {
    double sum = 0;
    for (double x : v) sum += x;
    return sum / static_cast<double>(v.size());
  }
  const std::size_t n = v.size();
  return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

double figure(const Figures &f, const std::string &name) {
  const auto it = f.find(name);
  return it == f.end() ? std::nan("") : it->second;
}

/// The point that differs from this one in the reference key alone.
std::size_t reference_of(const Experiment &e, std::size_t point) {
  auto wanted = e.points[point].settings;
  for (auto &s : wanted)
    if (s.first == e.reference_key) s.second = e.reference_value;
  for (std::size_t i = 0; i < e.points.size(); i++)
    if (e.points[i].settings == wanted) return i;
  return point;
}

std::string number(double v) {
  if (!std::isfinite(v)) return "-";
  char out[40];
  const double magnitude = std::fabs(v);
  std::snprintf(out, sizeof out, magnitude >= 1000 ? "%.0f" : magnitude >= 10 ? "%.2f" : "%.3f", v);
  return out;
}

std::string escaped(const std::string &s) {
  std::string out;
  for (char c : s) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

bool concerns(const Expectation &x, const Point &p) {
  if (x.when_key.empty()) return true;
  for (const auto &s : p.settings)
    if (s.first == x.when_key) return s.second == x.when_value;
  return false;
}

/// Rows an expectation concerns, and those that miss it.
std::pair<unsigned, unsigned> misses(const Experiment &e, const Results &r, const Expectation &x) {
  unsigned rows = 0, missed = 0;
  for (std::size_t i = 0; i < e.points.size(); i++) {
    if (!concerns(x, e.points[i])) continue;
    const double v = value(e, r, i, x.column);
    // An error is judged by its magnitude.
    const double judged = x.column.statistic == "worst" ? std::fabs(v) : v;
    rows++;
    missed +=
        !std::isfinite(v) || (x.has_least && judged < x.least) || (x.has_most && judged > x.most);
  }
  return {rows, missed};
}

std::string label(const Point &p) {
  std::string out;
  for (const auto &s : p.settings) out += (out.empty() ? "" : ", ") + s.second;
  return out.empty() ? "all" : out;
}

}  // namespace

Results run_all(const Experiment &e, const Runner &runner,
                const std::function<void(std::size_t, std::size_t)> &progress) {
  Results r;
  std::size_t done = 0;
  const std::size_t all = e.points.size() * e.seeds.size();
  for (std::size_t point = 0; point < e.points.size(); point++) {
    r.figures.emplace_back();
    for (std::uint64_t seed : e.seeds) {
      Scenario s = e.points[point].scenario;
      s.seed = seed;
      r.figures.back().push_back(runner(point, s));
      progress(++done, all);
    }
  }
  return r;
}

double value(const Experiment &e, const Results &r, std::size_t point, const Column &c) {
  const auto &base = r.figures[c.relative ? reference_of(e, point) : point];
  std::vector<double> v;
  for (std::size_t s = 0; s < r.figures[point].size(); s++) {
    double x = figure(r.figures[point][s], c.figure);
    if (c.relative) x /= figure(base[s], c.figure);
    if (!std::isfinite(x)) return std::nan("");
    v.push_back(x);
  }
  return reduce(v, c.statistic);
}

std::string table(const Experiment &e, const Results &r) {
  std::string out = "# " + e.title + "\n\n";
  if (!e.note.empty()) out += e.note + "\n\n";
  std::string head = "|", rule = "|";
  for (const auto &s : e.points[0].settings) {
    head += " " + s.first + " |";
    rule += "---|";
  }
  for (const Column &c : e.columns) {
    head += " " + c.show() + " |";
    rule += "---:|";
  }
  out += head + "\n" + rule + "\n";
  for (std::size_t i = 0; i < e.points.size(); i++) {
    out += "|";
    for (const auto &s : e.points[i].settings) out += " " + s.second + " |";
    for (const Column &c : e.columns) out += " " + number(value(e, r, i, c)) + " |";
    out += "\n";
  }
  for (const Expectation &x : e.expectations) {
    const auto m = misses(e, r, x);
    out += m.second ? "\nMISS: " : "\nheld: ";
    out += x.column.show();
    if (x.has_least) out += " at least " + number(x.least);
    if (x.has_most) out += " at most " + number(x.most);
    if (!x.when_key.empty()) out += " where " + x.when_key + " = " + x.when_value;
    out += " (" + std::to_string(m.first - m.second) + " of " + std::to_string(m.first) + " rows)";
  }
  return out + "\n";
}

bool held(const Experiment &e, const Results &r) {
  for (const Expectation &x : e.expectations) {
    const auto m = misses(e, r, x);
    if (m.second != 0 || m.first == 0) return false;
  }
  return true;
}

std::string svg(const Experiment &e, const Results &r) {
  constexpr int kRow = 20, kLeft = 330, kWidth = 420, kTop = 60;
  double most = 0;
  for (std::size_t i = 0; i < e.points.size(); i++) {
    const double v = value(e, r, i, e.plot);
    if (std::isfinite(v)) most = std::max(most, std::fabs(v));
  }
  const int height = kTop + kRow * static_cast<int>(e.points.size()) + 20;
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"850\" height=\"" +
                    std::to_string(height) +
                    "\" font-family=\"sans-serif\" font-size=\"12\">\n"
                    "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
                    "<text x=\"10\" y=\"22\" font-size=\"16\">" +
                    escaped(e.title) +
                    "</text>\n"
                    "<text x=\"10\" y=\"42\" fill=\"#555\">" +
                    escaped(e.plot.show()) + "</text>\n";
  for (std::size_t i = 0; i < e.points.size(); i++) {
    const double v = value(e, r, i, e.plot);
    const int y = kTop + kRow * static_cast<int>(i);
    const int w = std::isfinite(v) && most > 0
                      ? static_cast<int>(std::lround(std::fabs(v) / most * kWidth))
                      : 0;
    const std::string base = std::to_string(y + 14);
    out += "<text x=\"" + std::to_string(kLeft - 8) + "\" y=\"" + base + "\" text-anchor=\"end\">" +
           escaped(label(e.points[i])) + "</text>\n<rect x=\"" + std::to_string(kLeft) + "\" y=\"" +
           std::to_string(y + 3) + "\" width=\"" + std::to_string(w) + "\" height=\"14\" fill=\"" +
           (v < 0 ? "#b5553c" : "#3c6eb5") + "\"/>\n<text x=\"" + std::to_string(kLeft + w + 5) +
           "\" y=\"" + base + "\">" + number(v) + "</text>\n";
  }
  return out + "</svg>\n";
}

}  // namespace drfq
