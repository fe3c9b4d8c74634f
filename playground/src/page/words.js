// Every word of the page, in two languages. Nothing that draws belongs here.

const WORDS = {
  en: {
    skip: "Skip to the message box",
    you: "You are",
    language: "Language",
    auto: "Automatic",
    theme: "Dark or light",
    menu: "Channels",
    channels: "Channels",
    direct: "Direct messages",
    about: "A workspace in memory, on this machine only. Nothing here reaches Slack.",
    messages: "Messages",
    welcome: "Ask Interzone something. In a channel, mention @interzone; here are some beginnings:",
    welcomeDm: "Ask Interzone something. Here are some beginnings:",
    thread: "Thread",
    close: "Close the thread",
    send: "Send",
    attach: "Attach a file",
    mention: "Mention Interzone",
    also: "Also send to the channel",
    write: "Message {0}",
    reply: "Reply…",
    replies: "{0} replies",
    oneReply: "1 reply",
    answer: "Reply in thread",
    react: "React with {0}",
    reactions: "{0}: {1}",
    only: "Only visible to you",
    app: "APP",
    edited: "(edited)",
    download: "Download {0}",
    copy: "Copy",
    copied: "Copied",
    remove: "Remove {0}",
    offline: "The connection is lost. Trying again…",
    isAnswering: "{0} is answering",
    says: "{0}: {1}",
    refused: "(not on the list)",
    unread: "unread",
    failed: "That did not work: {0}",
    private: "private channel",
    public: "channel",
    good: "Good",
    bad: "Bad",
  },
  ja: {
    skip: "入力欄へ移動",
    you: "ユーザー",
    language: "言語",
    auto: "自動",
    theme: "ダーク／ライト",
    menu: "チャンネル",
    channels: "チャンネル",
    direct: "ダイレクトメッセージ",
    about: "このマシンのメモリ上だけのワークスペースです。Slack には何も送られません。",
    messages: "メッセージ",
    welcome: "Interzone に質問してみましょう。チャンネルでは @interzone とメンションします。例:",
    welcomeDm: "Interzone に質問してみましょう。例:",
    thread: "スレッド",
    close: "スレッドを閉じる",
    send: "送信",
    attach: "ファイルを添付",
    mention: "Interzone にメンション",
    also: "チャンネルにも投稿する",
    write: "{0} へのメッセージ",
    reply: "返信する…",
    replies: "{0} 件の返信",
    oneReply: "1 件の返信",
    answer: "スレッドで返信",
    react: "{0} でリアクション",
    reactions: "{0}: {1}",
    only: "あなただけに表示されています",
    app: "アプリ",
    edited: "(編集済み)",
    download: "{0} をダウンロード",
    copy: "コピー",
    copied: "コピーしました",
    remove: "{0} を外す",
    offline: "接続が切れました。再接続しています…",
    isAnswering: "{0} が回答しています",
    says: "{0}: {1}",
    refused: "(許可リスト外)",
    unread: "未読",
    failed: "できませんでした: {0}",
    private: "非公開チャンネル",
    public: "チャンネル",
    good: "良い",
    bad: "悪い",
  },
};

let language = "en";

export function speak(chosen) {
  language = chosen in WORDS ? chosen : "en";
}

export function spoken() {
  return language;
}

/** A word, with what belongs in it. */
export function word(name, ...parts) {
  const text = WORDS[language][name] ?? name;
  return text.replace(/\{(\d)\}/g, (_, at) => parts[Number(at)] ?? "");
}
