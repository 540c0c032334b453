// SPDX-License-Identifier: GPL-2.0-only
#include "cli/report.hh"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace drfq {
namespace {

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

std::string label(const Point &p) {
  std::string out;
  for (const auto &s : p.settings) out += (out.empty() ? "" : ", ") + s.second;
  return out.empty() ? "all" : out;
}

}  // namespace

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
    const Judgement j = judge(e, r, x);
    out += j.missed || j.rows == 0 ? "\nMISS: " : "\nheld: ";
    out += x.column.show();
    if (x.has_least) out += " at least " + number(x.least);
    if (x.has_most) out += " at most " + number(x.most);
    if (!x.when_key.empty()) out += " where " + x.when_key + " = " + x.when_value;
    out += " (" + std::to_string(j.rows - j.missed) + " of " + std::to_string(j.rows) + " rows)";
  }
  return out + "\n";
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
