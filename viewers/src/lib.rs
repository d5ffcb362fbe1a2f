//! Views of finished mcad reports.
